"""Speed of the fabric model at the size of a wafer; ``pytest tests/benchmarks/test_fabric_speed.py`` prints it.

Goals: a decoded token of Llama-3-8B on 660x660 PEs, compiled, with cycles by cause and words on every link, in 1 s from
a cold start of Python, imports included, and in 0.2 s in a process that has done another one; 4,096 tokens of its
prefill in a few seconds; the links of a whole wafer from 5,000 transfers in 20 ms for five directions, in 150 ms for
five directions of 24 colours.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import wafer_token

from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.mesh_transfers import DIRECTIONS, TRANSFERS, transfers
from wse.arrays import I64
from wse.backends.fabric.links.link_map import link_map
from wse.models.catalogue import CONFIGURATIONS

SIDE = 660
MESHES = [(757, 996), pytest.param(994, 750, marks=pytest.mark.full_size)]
COLOURS: Final = 24


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.fixture
def repeats(by_size: BySize) -> int:
    return int(by_size(small=1, full=7))


@pytest.fixture
def config() -> Path:
    return CONFIGURATIONS["llama-3-8b"]


def test_a_decoded_token_of_8b_from_a_cold_start(config: Path, repeats: int, say: Say) -> None:
    command = [sys.executable, wafer_token.__file__, str(config), str(SIDE), "4000"]
    cold_s = best_s(lambda: subprocess.run(command, check=True, capture_output=True), repeats)
    numpy_s = best_s(lambda: subprocess.run([sys.executable, "-c", "import numpy"], check=True), repeats)
    say(
        f"8B decode on {SIDE}x{SIDE}, cold process: {cold_s:.2f} s (goal 1 s), {cold_s / numpy_s:.1f} times "
        "what Python takes to import numpy",
    )


def test_a_decoded_token_of_8b_in_a_warm_process(config: Path, repeats: int, say: Say) -> None:
    """Warm: compiled, and one token timed; then tokens at lengths with other numbers of cache slots, links included."""
    fabric = wafer_token.fabric(config, SIDE, 8000)
    assert fabric.decode_cost(600).links.any()
    lengths = iter(range(1000, 8000, SIDE))
    token_s = best_s(lambda: fabric.decode_cost(next(lengths)).links, repeats)
    compile_s = best_s(lambda: wafer_token.fabric(config, SIDE, 8000), repeats)
    say(
        f"8B decode on {SIDE}x{SIDE}, warm: {token_s * 1e3:.0f} ms a token of another length (goal 200 ms), "
        f"{compile_s * 1e3:.0f} ms to compile again",
    )


def test_prefill_of_8b(config: Path, say: Say) -> None:
    began = time.perf_counter()
    fabric = wafer_token.fabric(config, SIDE, 4097, prompt_tokens=4096)
    compiled = time.perf_counter()
    assert fabric.prefill_cost(0).links.any()
    done = time.perf_counter()
    say(
        f"8B prefill of 4,096 tokens on {SIDE}x{SIDE}: compiled in {compiled - began:.2f} s, "
        f"timed in {done - compiled:.2f} s",
    )


def add_slices(rectangles: I64, total: I64) -> None:
    """The plain way: every rectangle onto all of its links."""
    for plane, top, end, left, right, words, *_ in rectangles.tolist():
        total[plane, top:end, left:right] += words


@pytest.mark.parametrize(("rows", "cols"), MESHES)
@pytest.mark.parametrize(
    ("colours", "goal_ms"),
    [
        pytest.param(1, 20, id="directions"),
        pytest.param(COLOURS, 150, id="colours", marks=pytest.mark.full_size),
    ],
)
def test_the_links_of_a_wafer(rows: int, cols: int, colours: int, goal_ms: int, repeats: int, say: Say) -> None:
    rectangles, planes = transfers(rows, cols, colours), DIRECTIONS * colours
    expected, used = (np.zeros((planes, rows, cols), np.int64) for _ in range(2))
    slices_s = best_s(lambda: add_slices(rectangles, expected), 1)
    used_s = best_s(lambda: link_map(rectangles, planes, rows, cols, out=used), repeats)
    assert np.array_equal(used, expected)
    fresh_s = best_s(lambda: link_map(rectangles, planes, rows, cols), repeats)
    say(
        f"{planes} planes of {rows}x{cols} from {TRANSFERS:,} transfers ({len(rectangles):,} rectangles): "
        f"{fresh_s * 1e3:.1f} ms (goal {goal_ms} ms), into memory in use {used_s * 1e3:.1f} ms, "
        f"{slices_s / fresh_s:.0f} times as fast as adding slices",
    )
