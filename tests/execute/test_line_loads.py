"""Words on links that no kernel counts: those of a schedule's messages, link by link, each time it is executed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse.backends.execute.calls.line_loads import LineLoads
from wse.backends.execute.host_memory.arena import Arena
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.schedule import Arrival, LineSchedule

EAST, WEST, SOUTH, NORTH = 1, 3, 2, 0


@pytest.mark.parametrize("axis", [ROWS, COLUMNS])
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 5), cols=st.integers(1, 5), elements=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_each_message_loads_every_link_of_its_way(axis: int, rows: int, cols: int, elements: int, seed: int) -> None:
    along_columns = axis == COLUMNS
    rng = np.random.default_rng(seed)
    length, lines = (rows, cols) if along_columns else (cols, rows)
    messages = np.stack([rng.integers(0, length, 6), rng.integers(0, length, 6), rng.integers(0, 7, 6)], axis=1)
    schedule = LineSchedule(
        name="any",
        length=length,
        messages=messages.astype(np.int32),
        first=np.array([0, 2, 6], np.int32),
        variants=rng.integers(0, 2, (2, lines)).astype(np.int32),
        colours=1,
        parts=2,
        part=rng.integers(0, 2, 6).astype(np.int32),
    )
    first = int(rng.integers(0, lines))
    loads = LineLoads(
        schedule=schedule,
        elements=elements,
        element_bytes=2,
        round=1,
        first_line=first,
        lines=lines - first,
        along_columns=along_columns,
    )
    expected = np.zeros((4, rows, cols), np.int64)
    pending_loads = schedule.words_of_messages(-(-elements // 2)).tolist()
    for line in range(first, lines):
        variant = schedule.variants[1, line]
        for message in range(schedule.first[variant], schedule.first[variant + 1]):
            (at, end, arrival), words = messages[message].tolist(), pending_loads[message]
            while at != end and arrival != Arrival.COPY:
                onward = end > at
                if along_columns:
                    expected[SOUTH if onward else NORTH, at, line] += 3 * words
                else:
                    expected[EAST if onward else WEST, line, at] += 3 * words
                at += 1 if onward else -1
    arena = Arena(rows, cols, 0, 4)
    arena.pending_loads[loads] += 2
    assert np.array_equal(arena.links * 3, expected * 2)  # twice, not three times
    arena.pending_loads[loads] += 1
    assert np.array_equal(arena.links, expected)
