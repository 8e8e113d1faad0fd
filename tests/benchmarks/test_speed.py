"""Speed of a matrix-vector product compared with memory; ``pytest tests/benchmarks -s`` prints it.

Goal: the kernel of a decode GEMV reads its weights at 0.8 of the machine's read bandwidth, for
256x256 and for 660x660 PEs.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np
import pytest

from tests.benchmarks.conftest import BySize, Say
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.step_times import read_bytes_per_s
from wse.program.isa.instructions import kernel_named
from wse.program.isa.operands import VIEWS
from wse_kernels.library import compiled_kernel


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the fastest of several calls, after a first call that compiles."""
    call()
    return min(timeit.repeat(call, number=1, repeat=repeats))


@pytest.mark.parametrize(
    ("side", "k", "n", "goal"),
    [
        pytest.param(256, 32, 32, 0.8, id="256x256 of 32x32"),
        pytest.param(660, 13, 13, 0.8, id="660x660 of 13x13"),
        pytest.param(660, 7, 22, 0.8, id="660x660 of 7x22", marks=pytest.mark.full_size),
    ],
)
def test_decode_gemv_streams_float16_weights(side: int, k: int, n: int, goal: float, by_size: BySize, say: Say) -> None:
    repeats = by_size(small=2, full=9)
    x_bytes, out_bytes, w_bytes = 4 * k, 4 * n, 2 * k * n
    arena = Arena(side, side, 0, x_bytes + out_bytes + w_bytes + 4)
    types = {"act": "float16", "wgt": "float16", "acc": "float32", "f32": "float32", "raw": "uint8"}
    views = {name: arena.view(types[name]) for name in VIEWS}
    views["wgt"][:, (x_bytes + out_bytes) // 2 :] = np.float16(0.5).view(np.uint16)
    views["act"][:, : x_bytes // 2] = np.float16(0.25).view(np.uint16)
    addresses = {"x": 0, "out": x_bytes // 4, "w": (x_bytes + out_bytes) // 2}
    values = {**addresses, "M": 1, "K": k, "N": n, "k_stride": n, "n_stride": 1, "out_stride": n}
    operands = np.array(
        [0, side, arena.blocks_per_row, *(values[name] for name in kernel_named("gemv").views)], np.int64
    )
    gemv = compiled_kernel("gemv").parallel
    arguments = (*(views[VIEWS[i]] for i in compiled_kernel("gemv").takes), operands)
    gemv_s = best_s(lambda: gemv(*arguments), repeats)
    sums = views["acc"][:, x_bytes // 4 : x_bytes // 4 + n, : min(arena.lanes, side)]
    assert np.allclose(sums, 0.125 * k)
    bandwidth = read_bytes_per_s(arena.memory, repeats)
    weights = side * arena.blocks_per_row * arena.lanes * w_bytes
    ratio = weights / gemv_s / bandwidth
    say(
        f"GEMV on {side}x{side}, tiles {k}x{n}: {weights / gemv_s / 1e9:.1f} GB/s of weights, "
        f"read bandwidth {bandwidth / 1e9:.1f} GB/s, ratio {ratio:.2f} (goal {goal})"
    )
