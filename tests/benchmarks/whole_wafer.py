"""Run a model on a whole wafer and check sampled layers, logits and tokens with plain numpy.

    python tests/benchmarks/whole_wafer.py --section whole.md

This program runs ``wse run llama-3-8b --weights random:7`` on a region of 1024x683 PEs of wse3 in
float16, and reports the time and the peak memory of that process. The trace has the input and the
output of each sampled layer. `plain_decoder` computes the same layers in float64 from the same
weights. The logits are compared in the same manner, and every token must be the most likely one.
The exit status is 1 if a comparison fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
HEAD_ROWS: Final = 16384
OPTIONS: Final = "--mapping region --software tuned --region 1024x683 --dtype float16"
TOLERANCE: Final = 0.02
"""Largest error of a layer in float16, relative to what the layer adds to its input (root mean squares)."""


@dataclass(frozen=True, kw_only=True)
class WholeWafer:
    """Result of a run: its speed, its memory and its errors.

    Attributes:
        command: The command.
        pes: PEs of the region.
        peak_bytes: Peak memory of the process.
        wall_s: Elapsed time of the process.
        passes: Number of passes over all weights, each for one token.
        pass_s: Time of a pass.
        bound_fraction: Time to read all weights except the embedding, relative to a pass.
        read_bytes_per_s: Memory read bandwidth of all cores.
        errors: Relative error of each sampled layer and of the logits.
        load: Load average of the five minutes before the end.
        likeliest: Whether every token has the largest logit, within the tolerance.
    """

    command: str
    pes: int
    peak_bytes: int
    wall_s: float
    passes: int
    pass_s: float
    bound_fraction: float
    read_bytes_per_s: float
    load: float
    errors: dict[str, float]
    likeliest: bool

    @property
    def right(self) -> bool:
        """Whether the tokens, the layers and the logits agree with numpy."""
        return self.likeliest and all(error <= TOLERANCE for error in self.errors.values())


def measure(options: Sequence[str], model: str, seed: int, layers: Sequence[int], prompt: Sequence[int]) -> WholeWafer:
    """Run a model with random weights and check it; ``options`` are passed on to `wse run`."""
    from wse.models.catalogue import CONFIGURATIONS
    from wse.models.load import load_model

    folder = Path(model)
    spec = load_model(folder if folder.exists() else CONFIGURATIONS[model]).spec
    last = spec.layer_count - 1
    recorded = {"embedding", "head", f"layers.{last}.down"}
    recorded |= {f"layers.{layer - k}.down" for layer in layers for k in (0, 1) if layer >= k}
    with tempfile.TemporaryDirectory() as made:
        trace = Path(made) / "run.h5"
        command = ["wse", "run", model, "--weights", f"random:{seed}", *options]
        command += ["--prompt-ids", ",".join(map(str, prompt))]
        asked = ["--record", f"activations={','.join(sorted(recorded))}", "--trace", str(trace)]
        asked += ["--profile", "--profile-output", str(Path(made) / "profile.json"), "--json"]
        report, peak_bytes, wall_s = run([*command, *asked])
        load = os.getloadavg()[1]
        errors, likeliest = check(trace, spec, seed, layers, report["tokens"])
    profile, model_read = report["profile"], report["model"]
    weights = 2 * (model_read["parameters"] - (0 if spec.tied_embedding else spec.vocab_size * spec.hidden_size))
    passes = len(prompt) + len(report["tokens"]) - 1
    pass_s = profile["passes_s"] / passes
    return WholeWafer(
        command=" ".join(command),
        pes=pes_of(report["system"]),
        peak_bytes=peak_bytes,
        wall_s=wall_s,
        passes=passes,
        pass_s=pass_s,
        bound_fraction=weights / profile["read_bytes_per_s"] / pass_s,
        read_bytes_per_s=profile["read_bytes_per_s"],
        load=load,
        errors=errors,
        likeliest=likeliest,
    )


def run(command: Sequence[str]) -> tuple[dict[str, Any], int, float]:
    """Return the report of a command that prints JSON, its peak memory in bytes and its elapsed time."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        if status:
            sys.exit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
        printed.seek(0)
        return json.load(printed), usage.ru_maxrss * 1024, wall_s


def check(
    trace: Path, spec: Any, seed: int, layers: Sequence[int], tokens: Sequence[int]
) -> tuple[dict[str, float], bool]:
    """Return the errors of layers and logits, and whether every token is the most likely one."""
    from plain_decoder import plain_logits

    from wse.backends.execute.weight_storage.random_weights import RandomWeights

    weights = RandomWeights(spec, seed)
    made = tensors(trace)
    errors = {}
    for layer in layers:
        x = made["embedding"] if layer == 0 else made[f"layers.{layer - 1}.down"]
        alone = replace(spec, layers=(spec.layers[layer],), embedding_scale=1.0)
        found: dict[str, F64] = {}
        plain_logits(alone, _named(weights, x, f"layers.{layer}."), range(len(x)), found.__setitem__)
        there = found["layers.0.down"]
        errors[f"layer {layer}"] = _rms(made[f"layers.{layer}.down"] - there) / _rms(there - x)
    x = made[f"layers.{spec.layer_count - 1}.down"][-len(tokens) :]
    nothing = replace(spec, layers=(), embedding_scale=1.0, tied_embedding=False)
    name = "embedding" if spec.tied_embedding else "head"
    parts = []
    for first in range(0, spec.vocab_size, HEAD_ROWS):
        rows = weights.rows(name)[first : min(first + HEAD_ROWS, spec.vocab_size)]
        part = {"head": rows.astype(np.float16), "embedding": x, "final_norm": weights.rows("final_norm")[:]}
        parts.append(plain_logits(nothing, part.__getitem__, range(len(x))))
    logits, read = np.concatenate(parts, axis=1), made["head"][-len(tokens) :]
    errors["logits"] = _rms(read - logits) / _rms(logits)
    behind = logits.max(axis=1) - logits[np.arange(len(tokens)), list(tokens)]
    return errors, bool((behind <= TOLERANCE * logits.std(axis=1)).all())


def _named(weights: Any, x: F64, prefix: str) -> Callable[[str], npt.NDArray[np.generic]]:
    """Return the tensors of a model of one layer whose input are the rows of x instead of tokens."""

    def tensor(name: str) -> npt.NDArray[np.generic]:
        if name == "embedding":
            return x
        if not name.startswith("layers.0."):  # the final norm and the head are checked separately
            return np.ones((1, x.shape[1])) if name == "head" else np.ones(x.shape[1])
        values = weights.rows(prefix + name.removeprefix("layers.0."))[:]
        return np.asarray(values, np.float16)

    return tensor


def tensors(trace: Path) -> dict[str, F64]:
    """Return the outputs of all ops by name, ``[tokens, features]`` over all passes."""
    from wse_traces import open_trace

    found: dict[str, list[F64]] = {}
    with open_trace(str(trace)) as opened:
        for index, record in enumerate(opened.records("tensor")):
            values = opened.tensor(index)
            found.setdefault(record["op"], []).append(values.reshape(-1, values.shape[-1]).astype(np.float64))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _rms(values: F64) -> float:
    return float(np.sqrt((values * values).mean()))


def pes_of(system: dict[str, Any]) -> int:
    """Return the number of PEs in all regions of a report."""
    return sum(stage["rows"] * stage["cols"] for stage in system["stages"])


def section(found: WholeWafer) -> Iterator[str]:
    """Yield the lines of a section of docs/performance.md."""
    yield from ("## A whole wafer", "")
    yield "The following command emulates a model with random weights on every PE of a whole wafer. To check the"
    yield "result, plain numpy computes the same values in float64. The errors in the table are root mean squares,"
    yield "relative to the logits, or, for a layer, to the values that the layer adds to its input."
    yield from ("", f"`{found.command}`", "")
    yield from ("| | |", "|---|---:|")
    yield f"| number of PEs, each with its own SRAM | {found.pes:,} |"
    yield f"| peak memory of the process | {found.peak_bytes / 1e9:.1f} GB |"
    yield f"| time of the command, which makes {found.passes} passes over all weights | {found.wall_s:.0f} s |"
    yield f"| time of a pass (one prompt token or one generated token) | {found.pass_s:.2f} s |"
    yield f"| memory bandwidth of all cores, measured after the run | {found.read_bytes_per_s / 1e9:.1f} GB/s |"
    yield f"| time to read all weights at this bandwidth, relative to a pass | {found.bound_fraction:.2f} |"
    yield f"| load of the {os.cpu_count()} cores during the run, this command included | {found.load:.1f} |"
    for name, error in found.errors.items():
        yield f"| error of {name} | {error:.1e} |"
    yield f"| each generated token is the most likely one by numpy | {'yes' if found.likeliest else 'no'} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run a model with random weights on a whole wafer and check it.")
    parser.add_argument("model", nargs="?", default="llama-3-8b", help="a Llama of `wse models`, or a folder")
    parser.add_argument("--seed", type=int, default=7, help="seed of the weights")
    parser.add_argument("--layers", default="0,15,31", help="layers to check")
    parser.add_argument("--prompt-ids", default="1,2,3")
    parser.add_argument("--new-tokens", type=int, default=3)
    parser.add_argument("--options", default=OPTIONS, help="of wse run")
    parser.add_argument("--section", type=Path, help="write a section of docs/performance.md to this file")
    asked = parser.parse_args(arguments)
    layers, prompt = ([int(number) for number in text.split(",")] for text in (asked.layers, asked.prompt_ids))
    options = [*asked.options.split(), "--new-tokens", str(asked.new_tokens)]
    found = measure(options, asked.model, asked.seed, layers, prompt)
    text = "\n".join((*section(found), ""))
    sys.stdout.write(text)
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")
    sys.exit(0 if found.right else 1)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]
    main()
