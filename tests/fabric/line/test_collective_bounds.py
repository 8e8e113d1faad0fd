"""Lower bounds of collectives: no pattern goes below those that are strict, and the best meet them."""

from __future__ import annotations

import pytest

from wse.backends.fabric.line.collective_bounds import collective_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.hardware.load import load_software, load_wafer
from wse_mappings.outcome import Collective
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.multicast import multicast

WAFER = load_wafer("wse2")
TIMES = PatternTimes(LineCosts.for_software(WAFER, load_software("tuned", WAFER.generation)))


@pytest.mark.parametrize("length", [2, 9, 40])
@pytest.mark.parametrize("words", [1, 30])
def test_flooding_and_gathers_into_an_end_meet_their_bounds(length: int, words: int) -> None:
    for root in (0, length - 1):
        broadcast = TIMES.alone_cycles(multicast(length, 1, root), words)
        gathered = TIMES.alone_cycles(gather(length, 1, range(length), root), words * length)
        assert broadcast == collective_bound("broadcast", length, words, WAFER, root)
        assert gathered == collective_bound("gather", length, words, WAFER, root)


@pytest.mark.parametrize("root", range(9))
def test_no_gather_or_broadcast_goes_below_its_bound(root: int) -> None:
    made: dict[Collective, float] = {
        "broadcast": TIMES.alone_cycles(multicast(9, 1, root), 12),
        "gather": TIMES.alone_cycles(gather(9, 1, range(9), root), 12 * 9),
    }
    for collective, cycles in made.items():
        bound = collective_bound(collective, 9, 12, WAFER, root)
        assert 0.6 * cycles < bound <= cycles
