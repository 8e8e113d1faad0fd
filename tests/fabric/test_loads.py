"""Difference arrays against walking every message over every link."""

from __future__ import annotations

import numpy as np
import pytest

from wse.fabric import loads
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast
from wse_mappings.patterns.ring_reduce import ring_reduce
from wse_mappings.patterns.ring_shift import ring_align, ring_shift
from wse_mappings.placement import Rect
from wse_mappings.schedule import Arrival, LineSchedule

PATTERNS = [
    k_tree(13, 4, Arrival.ADD, broadcast=True),
    k_tree(12, 3, Arrival.LARGER, broadcast=False, segments=((0, 5), (5, 7))),
    multicast(9, 2, 4),
    diagonal_multicast(7),
    diagonal_stream(6),
    ring_shift(8, 3),
    ring_align(9),
    ring_reduce(7),
]


def walked(pattern: LineSchedule, turns: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    lines = pattern.variants.shape[1]
    found = np.zeros((2, lines, pattern.length), np.int64)
    for turn in range(turns):
        for line in range(lines):
            for source, target, arrival in pattern.of_line(line, turn):
                if arrival != Arrival.KEEP:
                    found[0, line, source:target] += 1
                    found[1, line, target + 1 : source + 1] += 1
    return found


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
@pytest.mark.parametrize("turns", [1, 5])
@pytest.mark.parametrize("most", [10**9, 0], ids=["expanded", "by variant"])
def test_line_loads_are_what_walking_gives(
    pattern: LineSchedule, turns: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "MOST_EXPANDED", most)
    assert np.array_equal(loads.line_loads(pattern, turns), walked(pattern, turns))


@pytest.mark.parametrize(
    ("source", "target", "source_col", "target_col", "cols"),
    [
        (Rect(0, 0, 3, 4), Rect(0, 4, 3, 4), 3, 0, 1),
        (Rect(0, 0, 3, 4), Rect(0, 4, 3, 4), 0, 0, 4),
        (Rect(0, 4, 3, 4), Rect(3, 4, 3, 4), 0, 0, 4),
        (Rect(6, 4, 3, 4), Rect(0, 0, 3, 4), 0, 3, 1),
        (Rect(3, 4, 3, 4), Rect(0, 0, 3, 4), 0, 0, 4),
    ],
)
def test_a_translation_loads_every_link_of_every_path(
    source: Rect, target: Rect, source_col: int, target_col: int, cols: int
) -> None:
    got = np.zeros((4, 9, 8), np.int64)
    most = loads.add_translation(got, source, target, source_col, target_col, cols, 5)
    expected = np.zeros_like(got)
    for row in range(source.rows):
        for col in range(cols):
            r, c = source.row + row, source.col + source_col + col
            end_row, end_col = target.row + row, target.col + target_col + col
            while c != end_col:
                expected[loads.EAST if end_col > c else loads.WEST, r, c] += 5
                c += 1 if end_col > c else -1
            while r != end_row:
                expected[loads.SOUTH if end_row > r else loads.NORTH, r, c] += 5
                r += 1 if end_row > r else -1
    assert np.array_equal(got, expected)
    assert most == expected.max()
