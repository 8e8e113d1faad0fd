"""The recurrence over a line's messages against closed forms of the published cost model.

P PEs in a line, B words each, T_R = 2 cycles of ramp and 1 of hop on WSE-2 (Luczynski et al., HPDC 2024).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast
from wse_mappings.patterns.ring_reduce import ring_reduce
from wse_mappings.patterns.ring_shift import ring_shift
from wse_mappings.schedule import Arrival, LineSchedule

WSE2 = LineCosts(hop=1, ramp=2, gap=16, words_per_cycle=1.0, queue_words=2)


def chain(length: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """A reduce from the east end to PE 0, neighbour by neighbour."""
    return np.array([(pe, pe - 1, Arrival.ADD) for pe in range(length - 1, 0, -1)], np.int32)


@given(length=st.integers(2, 512), words=st.integers(1, 8192))
@settings(max_examples=15, deadline=None)
def test_chain_reduce_takes_words_plus_six_a_stage_and_a_constant(length: int, words: int) -> None:
    """T = B + (2 T_R + 2)(P - 1) + constant; the constant is that of one stage, whatever P and B."""
    constant = line_cycles(chain(2), 1, WSE2).total - (1 + 6)
    assert line_cycles(chain(length), words, WSE2).total == words + 6 * (length - 1) + constant


@given(length=st.integers(2, 512), words=st.integers(1, 8192))
@settings(max_examples=12, deadline=None)
def test_flooding_broadcast_takes_words_plus_distance_plus_the_ramps(length: int, words: int) -> None:
    """T = B + P + 2 T_R, from the first operation to the last word in memory."""
    pattern = multicast(length, 1, 0)
    assert line_cycles(pattern.line_messages(0), words, WSE2).total == words + length + 2 * 2


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 48])
def test_a_ring_step_is_two_hops_whatever_the_length(length: int) -> None:
    pattern = ring_shift(length, 1)
    expected = 0 if length == 1 else min(length - 1, 2) + 99 + 3 + 3
    assert line_cycles(pattern.line_messages(0), 100, WSE2).total == expected


@pytest.mark.parametrize("make", [ring_reduce, diagonal_multicast, diagonal_stream])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 17, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("words", [1, 7, 900])
def test_the_variants_called_slowest_bound_all_others(make: object, length: int, words: int) -> None:
    pattern: LineSchedule = make(length)  # type: ignore[operator]

    def slowest(chosen: list[int]) -> float:
        return max(
            line_cycles(pattern.messages[pattern.first[v] : pattern.first[v + 1]], words, WSE2).total for v in chosen
        )

    for variants in pattern.variants:
        assert len(pattern.critical(variants)) <= 5
        assert slowest(pattern.critical(variants)) == slowest(variants.tolist())


def test_causes_of_a_chain_are_distance_streaming_and_stages() -> None:
    cycles = line_cycles(chain(10), 100, WSE2)
    assert cycles.hops == 9 + 99
    assert cycles.relays == 3 + 8 * 5 + 3
    assert cycles.launch == cycles.compute == 0
    assert cycles.total == sum(cycles[1:])
