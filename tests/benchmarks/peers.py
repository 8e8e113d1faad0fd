"""Compare the speed of the emulator with plain Llama decoders, with equal weights and threads.

    python tests/benchmarks/peers.py shared/models/stories15m --mesh 48x48 --threads 2

The plain decoders use numpy, torch (if installed) and C (if there is a compiler). The script
measures tokens per second for reading a prompt, 512 tokens by default, and for decoding. The
decoders take turns many times, so that other programs on the machine affect all of them equally.
Results are medians and the range of the middle half of the repetitions.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

THREADS: Final = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables with the number of threads of each library. They are read at import."""

TOKENS_IN_TURN: Final = 5


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Measured speed of a decoder.

    Attributes:
        decoder: Name of the decoder.
        tokens_per_s: Median over the repetitions.
        low, high: Lower and upper quartile of the tokens/s.
        times_numpy: ``tokens_per_s`` divided by that of the numpy decoder.
    """

    decoder: str
    tokens_per_s: float
    low: float
    high: float
    times_numpy: float


def speeds(rates: dict[str, list[float]]) -> list[Speed]:
    """Return the median and the quartiles of each decoder's rates.

    Args:
        rates: Tokens/s of each repetition, by decoder. "numpy" must be among the decoders.
    """
    import numpy as np

    plain = float(np.median(rates["numpy"]))
    found = []
    for decoder, values in rates.items():
        low, median, high = (float(value) for value in np.percentile(values, (25, 50, 75)))
        found.append(Speed(decoder=decoder, tokens_per_s=median, low=low, high=high, times_numpy=median / plain))
    return found


def compare(
    folder: Path,
    mesh: tuple[int, int],
    *,
    dtype: str,
    prompt_tokens: int,
    repeats: int,
    prompt_repeats: int,
    build: Path,
) -> dict[str, list[Speed]]:
    """Measure the emulator and all available plain decoders.

    Args:
        folder: Folder of a Llama model.
        mesh: Rows and columns of the emulated mesh.
        dtype: Element type of the emulator. The other decoders use float32.
        prompt_tokens: Length of the prompt.
        repeats: Number of repetitions of decoding, with ``TOKENS_IN_TURN`` tokens each.
        prompt_repeats: Number of repetitions of reading the prompt.
        build: Folder for the compiled C decoder.

    Returns:
        Speeds of all decoders, for "decode" and for "prompt of N".
    """
    from tests.benchmarks.c_decoder import CDecoder, compiler
    from tests.benchmarks.numpy_decoder import NumpyDecoder
    from tests.support.session import model, session

    loaded = model(folder)
    spec, checkpoint = loaded.spec, loaded.checkpoint
    assert checkpoint is not None
    context = prompt_tokens + (repeats + 1) * TOKENS_IN_TURN
    prompt = [(7 * i + 3) % spec.vocab_size for i in range(prompt_tokens)]
    makers: dict[str, Callable[[], Any]] = {"numpy": lambda: NumpyDecoder(spec, checkpoint, context)}
    if compiler() is not None:
        makers["C"] = lambda: CDecoder(spec, checkpoint, context, build)
    if importlib.util.find_spec("torch") is not None:
        from tests.benchmarks.torch_decoder import TorchDecoder

        makers["torch"] = lambda: TorchDecoder(spec, checkpoint, context)
    run = session(folder, mesh, prompt=prompt, new_tokens=(repeats + 1) * TOKENS_IN_TURN, dtype=dtype)
    run.engine.precompile(lambda done, total, name: None)
    peers = {name: make() for name, make in makers.items()}
    reading: dict[str, Callable[[], object]] = {f"emulator, {dtype}": run.read}
    reading |= {name: lambda peer=peer: peer.read(prompt) for name, peer in peers.items()}
    decoding: dict[str, Callable[[], object]] = {f"emulator, {dtype}": run.engine.decode}
    decoding |= {name: lambda peer=peer: peer.step(5) for name, peer in peers.items()}
    caches = [cache.counters for of_user in run.engine.caches.by_user for cache in of_user.values()]
    empty = [{name: counter.copy() for name, counter in counters.items()} for counters in caches]

    def forget() -> None:
        for counters, first in zip(caches, empty, strict=True):
            for name, counter in counters.items():
                counter[...] = first[name]
        for peer in peers.values():
            peer.length = 0

    read: dict[str, list[float]] = {name: [] for name in reading}
    for repeat in range(-1, prompt_repeats):
        forget()
        for name, one in reading.items():
            rate = prompt_tokens / seconds(one)
            if repeat >= 0:  # the first is not counted
                read[name].append(rate)
    for one in decoding.values():
        seconds(one, TOKENS_IN_TURN)  # not counted
    rates: dict[str, list[float]] = {name: [] for name in decoding}
    for _ in range(repeats):
        for name, one in decoding.items():
            rates[name].append(TOKENS_IN_TURN / seconds(one, TOKENS_IN_TURN))
    return {"decode": speeds(rates), f"prompt of {prompt_tokens}": speeds(read)}


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Return the seconds that ``times`` calls of a function need together."""
    began = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - began


def lines(results: dict[str, list[Speed]]) -> list[str]:
    """Return the lines of a table of speeds for each kind of work (decode, prompt)."""
    found = []
    for work, rows in results.items():
        found.append(f"{work:18}{'tokens/s':>12}{'middle half':>20}{'x numpy':>10}")
        for one in rows:
            spread = f"{one.low:,.1f} to {one.high:,.1f}"
            found.append(f"{one.decoder:18}{one.tokens_per_s:12,.1f}{spread:>20}{one.times_numpy:10.2f}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the decoders, print the speeds, and write them to a JSON file (``--json``)."""
    parser = argparse.ArgumentParser(description="Compare the speed of the emulator with plain decoders.")
    parser.add_argument("model", type=Path, help="folder of a Llama model")
    parser.add_argument("--mesh", default="48x48", help="PEs of the emulated wafer")
    parser.add_argument("--dtype", default="float16", help="element type of the emulator; the others use float32")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=15, help=f"times that each makes {TOKENS_IN_TURN} tokens")
    parser.add_argument("--prompt-repeats", type=int, default=5, help="times that each reads the prompt")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    asked = parser.parse_args(arguments)
    os.environ.update(dict.fromkeys(THREADS, str(asked.threads)))
    rows, cols = map(int, asked.mesh.split("x"))
    with tempfile.TemporaryDirectory() as build:
        results = compare(
            asked.model,
            (rows, cols),
            dtype=asked.dtype,
            prompt_tokens=asked.prompt_tokens,
            repeats=asked.repeats,
            prompt_repeats=asked.prompt_repeats,
            build=Path(build),
        )
    title = f"{asked.model.name} on {asked.mesh}, {asked.threads} threads"
    sys.stdout.write("\n".join((title, *lines(results), "")))
    if asked.json is not None:
        named = {work: [asdict(one) for one in rows] for work, rows in results.items()}
        asked.json.write_text(json.dumps({"threads": asked.threads, "mesh": asked.mesh, **named}, indent=1))


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]
    main()
