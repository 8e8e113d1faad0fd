"""Speed of the wavelet kernel; ``pytest tests/benchmarks/test_wavelet_speed.py`` prints it beside the goals.

A hop is one wavelet carried over one link between two neighbouring routers. Its way over the ramps, out of the memory
of the sender and into that of the receiver, is emulated too and not counted. Goals, one core: 40 M hops/s where every
PE of 32×32 sends to its neighbour, 30 M with eight colours contending for the links of 32×32, at most 256 bytes a
queue. BookSim2 does about 0.3 M at 32×32 with dynamic
allocation of channels, which is harder than static colours: the ratio compares tools, not algorithms.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.benchmarks.conftest import BySize, Say
from tests.wavelet.lay import WSE2, on_rows
from wse.backends.wavelet.flatten import tables
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import Port, WaveletMachine
from wse.backends.wavelet.run import execute, run
from wse_kernels import wavelet as columns
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.ring_shift import ring_shift
from wse_mappings.schedule import Arrival, uniform_schedule

BOOKSIM2_HOPS_PER_S = 0.3e6


def neighbour_shift() -> WaveletMachine:
    """Every PE of 32×32 but those of the last column sends 2,048 words east."""
    messages = [(pe, pe + 1, Arrival.REPLACE) for pe in range(31)]
    return on_rows(uniform_schedule("shift", 32, 32, messages, 2), 2048, rows=32, target=2048)


def eight_colours() -> WaveletMachine:
    """In every row of 32×32, eight PEs at the west send 512 words each to eight at the east, over the same links."""
    machine = WaveletMachine(WSE2, 32, 32, 512)
    lines = Lines(machine=machine, gap_cycles=16)
    for colour in range(8):
        lines.rows(uniform_schedule("stream", 32, 32, [(colour, 24 + colour, Arrival.REPLACE)], 1), 512, colour=colour)
    return machine


@pytest.fixture
def repeats(by_size: BySize) -> int:
    return int(by_size(small=2, full=15))


def hops_per_s(machine: WaveletMachine, repeats: int) -> float:
    """Best of several runs, each on fresh tables; the machine may be busy with other work."""
    best = 0.0
    for _ in range(repeats):
        table = tables(machine)
        memory = np.zeros(machine.rows * machine.cols * machine.memory_words, np.float32)
        began = time.perf_counter()
        execute(machine, table, memory)
        seconds = time.perf_counter() - began
        hops = int(table.queues[table.identity[:, 1] < Port.RAMP, columns.TAIL].sum())
        best = max(best, hops / seconds)
    return best


@pytest.mark.parametrize(
    ("name", "machine", "goal"),
    [
        ("neighbour shift 32x32", neighbour_shift(), 40),
        ("eight colours on shared links 32x32", eight_colours(), 30),
        ("row multicast 64x256", on_rows(multicast(256, 64, 0), 256, rows=64), None),
        ("row chains 64x256", on_rows(chain(256, 64, Arrival.ADD), 256, rows=64), None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hops_a_second(name: str, machine: WaveletMachine, goal: int | None, repeats: int, say: Say) -> None:
    rate = hops_per_s(machine, repeats)
    aim = f" (goal {goal} M)" if goal else ""
    say(f"{name}: {rate / 1e6:.1f} M hops/s{aim}, {rate / BOOKSIM2_HOPS_PER_S:.0f} times BookSim2")


@pytest.mark.parametrize("name", ["chain", "ring shift"])
def test_laying_and_running_128x128(name: str, say: Say) -> None:
    """A pattern on all rows, from its messages to the end of its run; the kernel is compiled already."""
    pattern, target = (chain(128, 128, Arrival.ADD), 0) if name == "chain" else (ring_shift(128, 128), 16)
    run(on_rows(pattern, 16, target=target))
    began = time.perf_counter()
    run(on_rows(pattern, 16, rows=128, target=target))
    seconds = time.perf_counter() - began
    say(f"{name} on all rows of 128x128: {seconds:.2f} s (goal 2 s)")


def test_bytes_a_queue() -> None:
    table = tables(eight_colours())
    assert table.queues.nbytes // len(table.queues) <= 256
