"""Speed of the emulation as ratios measured in one run; ``pytest tests/benchmarks -s`` prints them.

Goals: a decode GEMV reads its weights at 0.7 of the machine's read bandwidth on 256x256
PEs and at 0.5 on 660x660; stories15m in float16 on 48x48 decodes at 0.25 of the tokens/s of a plain numpy float32
decoder; less than 20 % of the wall time of a token is outside kernels.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from numpy_decoder import NumpyDecoder
from session import Session, golden, model, session

from wse.execute.arena import Arena
from wse_kernels.library import compiled

REPEATS = 9


def best_s(call: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls, after one that compiles."""
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def read_bandwidth(memory: npt.NDArray[np.uint8]) -> float:
    """Bytes a second at which all cores together read ``memory``, each summing a stretch of it with numpy."""
    cores = os.cpu_count() or 1
    words = memory[: memory.nbytes // 8 * 8].view(np.uint64)
    parts = np.array_split(words, cores)
    with ThreadPoolExecutor(cores) as pool:
        return float(words.nbytes / best_s(lambda: list(pool.map(np.sum, parts))))


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n    {line}")  # noqa: T201


@pytest.mark.parametrize(
    ("side", "k", "n", "goal"),
    [(256, 32, 32, 0.7), (660, 13, 13, 0.5), (660, 7, 22, 0.5)],
    ids=["256x256 of 32x32", "660x660 of 13x13", "660x660 of 7x22"],
)
def test_decode_gemv_streams_float16_weights(
    side: int, k: int, n: int, goal: float, capsys: pytest.CaptureFixture[str]
) -> None:
    x_bytes, out_bytes, w_bytes = 4 * k, 4 * n, 2 * k * n
    arena = Arena(side, side, 0, x_bytes + out_bytes + w_bytes + 4)
    act, acc = arena.view("float16"), arena.view("float32")
    act[:, (x_bytes + out_bytes) // 2 :] = np.float16(0.5).view(np.uint16)
    act[:, : x_bytes // 2] = np.float16(0.25).view(np.uint16)
    numbers = (0, side, arena.blocks_per_row, 0, (x_bytes + out_bytes) // 2, x_bytes // 4, 1, k, n, n, 1, n, 0)
    operands = [*numbers, *[0] * 4]
    control = np.zeros((side, 16), np.int32)
    call = (act, act, acc, acc, control, np.array(operands, np.int64))
    matmul = compiled("matmul").parallel
    gemv_s = best_s(lambda: matmul(*call))
    assert np.allclose(acc[:, x_bytes // 4 : x_bytes // 4 + n, : min(arena.lanes, side)], 0.125 * k)
    bandwidth = read_bandwidth(arena.memory)
    weights = side * arena.blocks_per_row * arena.lanes * w_bytes
    ratio = weights / gemv_s / bandwidth
    show(
        capsys,
        f"GEMV on {side}x{side}, tiles {k}x{n}: {weights / gemv_s / 1e9:.1f} GB/s of weights, "
        f"read bandwidth {bandwidth / 1e9:.1f} GB/s, ratio {ratio:.2f} (goal {goal})",
    )


def test_stories15m_decodes_beside_a_plain_numpy_decoder(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "models" / "stories15m"
    case = golden(folder)[0]
    tokens = case["token_ids"][1:121]
    loaded = model(folder)
    assert loaded.checkpoint is not None
    plain = NumpyDecoder(loaded.spec, loaded.checkpoint, 256)
    for token in case["token_ids"][:5]:
        plain.step(token)
    run = session(folder, (48, 48), prompt=case["prompt_ids"], new_tokens=len(tokens), dtype="float16")
    run.engine.make_ready(lambda done, total, name: None)
    run.read()
    for _ in range(4):
        run.engine.decode()
    plain_s, emulated_s, inside_s = [], [], []
    for first in range(5, 105, 20):  # turn about, in stretches, so that both meet the same weather
        plain_s += [timed(plain.step, token) for token in tokens[first : first + 20]]
        emulated_s += [timed(run.engine.decode) for _ in range(20)]
        inside_s += [seconds_in_kernels(run) for _ in range(3)]
    emulated, inside = float(np.median(emulated_s)), float(np.median(inside_s))
    ratio = float(np.median(plain_s)) / emulated
    show(
        capsys,
        f"stories15m float16 on 48x48: {1 / emulated:.0f} tokens/s, plain numpy float32 "
        f"{1 / np.median(plain_s):.0f} tokens/s, ratio {ratio:.2f} (goal 0.25); "
        f"outside kernel calls {1 - inside / emulated:.0%} of a token (aim 20 %)",
    )


def timed(call: Callable[..., object], *arguments: object) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def seconds_in_kernels(run: Session) -> float:
    """Seconds that the kernel calls of one token take, each timed by itself; the cache does not advance."""
    calls = next(calls for (phase, _), calls in run.engine._calls.items() if phase == len(run.program.phases) - 1)
    return sum(timed(function, *arguments) for function, arguments in calls if hasattr(function, "signatures"))
