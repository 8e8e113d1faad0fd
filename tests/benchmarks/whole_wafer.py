"""Run a model on a whole wafer, and check some layers and the logits with plain numpy.

    python tests/benchmarks/whole_wafer.py --json whole.json --section whole.md

1. Runs ``wse run llama-3-8b --weights random:7`` in float16 on a region of 1024x683 PEs of wse3, in
   a process of its own, and reports its peak memory and time.
2. Reads the input and output of some layers from the trace, computes these layers in float64 from
   the same weights and inputs (`plain_decoder`), and compares the outputs. The logits of the output
   head are compared in the same way.
3. Checks that each generated token is the most likely one by numpy's logits.

The exit code is 1 if any check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
HEAD_ROWS: Final = 16384
OPTIONS: Final = "--mapping region --software tuned --region 1024x683 --dtype float16"
TOLERANCE: Final = 0.02
"""Maximum relative error of a layer: root mean square of the errors over that of what it adds.

For tokens: how far the logit of a token may be below the maximum, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class WholeWafer:
    """Measurements and errors of a run on a whole wafer.

    Attributes:
        command: The command of the run.
        pes: Number of PEs of the region.
        peak_bytes: Peak memory of the process.
        wall_s: Seconds of the process.
        passes: Number of passes over all weights; each computes one token.
        pass_s: Seconds per pass.
        bound_fraction: Time to read the weights (without an embedding table that is not also the
            output head) from memory, divided by ``pass_s``.
        read_bytes_per_s: Memory bandwidth of all cores.
        load: Average number of programs that use or wait for a core, over the last five minutes.
        errors: Relative errors (root mean squares) of some layers and of the logits. Errors of a
            layer are relative to the values that it adds to its input.
        likeliest: Whether each token has the largest logit by numpy, within the tolerance.
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
        """Whether all tokens and all relative errors are within the tolerance."""
        return self.likeliest and all(error <= TOLERANCE for error in self.errors.values())


def measure(options: Sequence[str], model: str, seed: int, layers: Sequence[int], prompt: Sequence[int]) -> WholeWafer:
    """Run a model with random weights in a process of its own, and check the results.

    Args:
        options: Further options of `wse run`, about wafer, mapping and number of tokens.
        model: Name of a bundled configuration, or path of a model folder.
        seed: Seed of the weights.
        layers: Layers to check.
        prompt: Token ids of the prompt.
    """
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
    """Run a Python module that prints JSON.

    Args:
        command: Name of the module and its arguments.

    Returns:
        The printed JSON, the peak memory of the process in bytes, and its seconds.

    Raises:
        SystemExit: The command failed.
    """
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
    """Compare a trace with plain numpy.

    Args:
        trace: Trace file with the outputs of the layers, their predecessors, and the head.
        spec: Specification of the model.
        seed: Seed of the weights.
        layers: Layers to compare.
        tokens: The generated tokens.

    Returns:
        Relative errors, keyed "layer N" and "logits", and whether each token is the most likely
        one, within the tolerance.
    """
    from plain_decoder import plain_logits

    from wse.backends.execute.weight_storage.random_weights import RandomWeights

    weights = RandomWeights(spec, seed)
    made = tensors(trace)
    errors = {}
    for layer in layers:
        x = made["embedding"] if layer == 0 else made[f"layers.{layer - 1}.down"]
        one_layer_spec = replace(spec, layers=(spec.layers[layer],), embedding_scale=1.0)
        found: dict[str, F64] = {}
        plain_logits(one_layer_spec, _named(weights, x, f"layers.{layer}."), range(len(x)), found.__setitem__)
        expected = found["layers.0.down"]
        errors[f"layer {layer}"] = _rms(made[f"layers.{layer}.down"] - expected) / _rms(expected - x)
    x = made[f"layers.{spec.layer_count - 1}.down"][-len(tokens) :]
    head_spec = replace(spec, layers=(), embedding_scale=1.0, tied_embedding=False)
    name = "embedding" if spec.tied_embedding else "head"
    parts = []
    for first in range(0, spec.vocab_size, HEAD_ROWS):
        rows = weights.rows(name)[first : min(first + HEAD_ROWS, spec.vocab_size)]
        part = {"head": rows.astype(np.float16), "embedding": x, "final_norm": weights.rows("final_norm")[:]}
        parts.append(plain_logits(head_spec, part.__getitem__, range(len(x))))
    logits, read = np.concatenate(parts, axis=1), made["head"][-len(tokens) :]
    errors["logits"] = _rms(read - logits) / _rms(logits)
    logit_deficit = logits.max(axis=1) - logits[np.arange(len(tokens)), list(tokens)]
    return errors, bool((logit_deficit <= TOLERANCE * logits.std(axis=1)).all())


def _named(weights: Any, x: F64, prefix: str) -> Callable[[str], npt.NDArray[np.generic]]:
    """Return a function from names to the tensors of a model that has only one layer.

    Its embedding table is x, so token id i stands for row i of x. Output head and final norm are
    ones, because the logits of this model are not used.

    Args:
        weights: Random weights of the whole model.
        x: Inputs of the layer, [tokens, features].
        prefix: Prefix of the layer's tensors in ``weights``, such as ``layers.3.``.
    """

    def tensor(name: str) -> npt.NDArray[np.generic]:
        if name == "embedding":
            return x
        if not name.startswith("layers.0."):
            return np.ones((1, x.shape[1])) if name == "head" else np.ones(x.shape[1])
        values = weights.rows(prefix + name.removeprefix("layers.0."))[:]
        return np.asarray(values, np.float16)

    return tensor


def tensors(trace: Path) -> dict[str, F64]:
    """Read the recorded outputs of ops from a trace.

    Returns:
        Float64 [tokens, features] over all passes, by name of the op.
    """
    from wse_traces import open_trace

    found: dict[str, list[F64]] = {}
    with open_trace(str(trace)) as opened:
        for index, record in enumerate(opened.records("tensor")):
            values = opened.tensor(index)
            found.setdefault(record["op"], []).append(values.reshape(-1, values.shape[-1]).astype(np.float64))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _rms(values: F64) -> float:
    """Return the root mean square of all values."""
    return float(np.sqrt((values * values).mean()))


def pes_of(system: dict[str, Any]) -> int:
    """Return the number of PEs in all regions of a run.

    Args:
        system: Value of the key "system" in the JSON of the run.
    """
    return sum(stage["rows"] * stage["cols"] for stage in system["stages"])


def section(found: WholeWafer) -> str:
    """Return the section about most of a wafer in docs/performance.md: the filled template whole_wafer.md."""
    return (
        Path(__file__)
        .with_suffix(".md")
        .read_text(encoding="utf-8")
        .format(
            found=found,
            peak_gb=found.peak_bytes / 1e9,
            read_gb_per_s=found.read_bytes_per_s / 1e9,
            cores=os.cpu_count(),
            errors="\n".join(f"| error of {name} | {error:.1e} |" for name, error in found.errors.items()),
            likeliest="yes" if found.likeliest else "no",
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and check a model, print the section, and exit with 1 if a check failed."""
    parser = argparse.ArgumentParser(description="Run a model on a whole wafer and check it with numpy.")
    parser.add_argument("model", nargs="?", default="llama-3-8b", help="a Llama of `wse models`, or a folder")
    parser.add_argument("--seed", type=int, default=7, help="seed of the weights")
    parser.add_argument("--layers", default="0,15,31", help="layers to check")
    parser.add_argument("--prompt-ids", default="1,2,3")
    parser.add_argument("--new-tokens", type=int, default=3)
    parser.add_argument("--options", default=OPTIONS, help="further options of wse run")
    parser.add_argument("--json", type=Path, help="file for the measurements")
    parser.add_argument("--section", type=Path, help="file for the section of docs/performance.md")
    asked = parser.parse_args(arguments)
    layers, prompt = ([int(number) for number in text.split(",")] for text in (asked.layers, asked.prompt_ids))
    options = [*asked.options.split(), "--new-tokens", str(asked.new_tokens)]
    found = measure(options, asked.model, asked.seed, layers, prompt)
    text = section(found)
    sys.stdout.write(text)
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")
    sys.exit(0 if found.right else 1)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]
    main()
