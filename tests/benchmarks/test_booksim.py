"""Speed of the wavelet reference (cycle-by-cycle timing model) compared with BookSim2.

``pytest tests/benchmarks/test_booksim.py --booksim PATH`` prints the rates of both, where PATH is
the executable of BookSim2. Goals: 60 times as many hops per second on 8x8 PEs, 300 times on 32x32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.booksim import TRAFFIC, destinations, distance, machine, pairs, wavelet_hops
from tests.benchmarks.conftest import BySize, Say
from wse.backends.wavelet.run import run


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_words_of_every_pe_arrive_where_they_are_sent(traffic: str) -> None:
    side, words = 5, 3
    made = machine(traffic, side, words)
    sent = np.arange(side * side * words, dtype=np.float32).reshape(-1, words)
    memory = np.zeros((side, side, made.memory_words), np.float32)
    memory.reshape(-1, made.memory_words)[:, :words] = sent
    memory = run(made, memory).memory
    arrived = memory.reshape(-1, made.memory_words)[destinations(traffic, side), words:]
    np.testing.assert_array_equal(arrived, sent)


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_hops_are_words_times_links(traffic: str) -> None:
    _, hops = wavelet_hops(traffic, 4, 1)
    assert hops == pytest.approx(16 * 2048 * distance(traffic, 4))


def test_pairs_with_booksim(pytestconfig: pytest.Config, by_size: BySize, say: Say) -> None:
    program = pytestconfig.getoption("--booksim")
    if program is None:
        pytest.skip("no BookSim2: build it from its sources and give its path with --booksim PATH")
    for pair in pairs(Path(program), by_size(small=(8,), full=(8, 16, 32)), by_size(small=1, full=3)):
        ratio = pair.wavelets / pair.booksim
        say(f"{pair.traffic} {pair.side}x{pair.side}: {pair.wavelets / 1e6:.1f} M hops/s, {ratio:.0f} times BookSim2")
