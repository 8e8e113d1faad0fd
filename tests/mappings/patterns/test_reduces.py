"""All reduces include the words of each PE once in the sum, and use the declared colours."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mappings.replay import hops, replay
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.patterns.snake import snake, snake_path
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.patterns.x_y import x_y
from wse_mappings.schedule import Arrival, LineSchedule

LENGTHS = st.integers(1, 70)


def check(schedule: LineSchedule) -> None:
    """Check that PE 0 ends with all labels, and that colours are those declared."""
    bags = replay(schedule, [(pe,) for pe in range(schedule.length)])
    assert sorted(bags[0]) == list(range(schedule.length))
    assert len(schedule.message_colours) == len(schedule.messages)
    assert set(schedule.message_colours.tolist()) <= set(range(schedule.colours))


@given(LENGTHS, st.sampled_from([chain, star, binary_tree, two_phase]))
def test_a_reduce_takes_every_pe_once(length: int, make: object) -> None:
    check(make(length, 2, Arrival.ADD))  # type: ignore[operator]


@given(LENGTHS, st.integers(1, 80))
def test_two_phase_for_any_group(length: int, group: int) -> None:
    schedule = two_phase(length, 1, Arrival.ADD, group)
    check(schedule)
    heads = [pe for pe in range(length) if (length - 1 - pe) % group == group - 1]
    assert sum(h > 1 for h in hops(schedule)) <= len(heads)


@pytest.mark.parametrize(("length", "group"), [(512, 32), (512, 8), (40, 8), (21, 7)])
def test_two_phase_alternates_in_a_group_and_passes_the_head_before_it(length: int, group: int) -> None:
    schedule = two_phase(length, 1, Arrival.ADD, group)
    colour = dict(zip(schedule.messages[:, 0].tolist(), schedule.message_colours.tolist(), strict=True))
    for pe in range(1, length):
        place = (length - 1 - pe) % group
        if place not in (0, group - 1):
            assert colour[pe] != colour[pe + 1]
        if place == 0 and pe + 1 < length:
            assert colour[pe] == colour[pe + 1]


def test_the_star_begins_with_the_nearest() -> None:
    assert star(5, 1, Arrival.ADD).messages[:, 0].tolist() == [1, 2, 3, 4]


@given(st.integers(2, 40))
def test_the_ring_sends_each_part_round_once_for_the_sum_and_once_for_the_result(length: int) -> None:
    schedule = ring_all_reduce(length, 1, Arrival.ADD)
    assert schedule.parts == length
    held = [[(pe,) for _ in range(length)] for pe in range(length)]
    for (source, target, arrival), part in zip(schedule.messages.tolist(), schedule.part.tolist(), strict=True):
        before = held[target][part] if arrival == Arrival.ADD else ()
        held[target][part] = before + held[source][part]
    assert all(sorted(bag) == list(range(length)) for pe in held for bag in pe)
    assert max(hops(schedule)) <= 2


@given(st.integers(1, 9), st.integers(1, 9))
def test_the_snake_steps_to_neighbours_and_x_y_has_two_lines(rows: int, cols: int) -> None:
    path = snake_path(rows, cols)
    assert sorted(path) == [(row, col) for row in range(rows) for col in range(cols)]
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(path))
    assert snake(rows, cols, Arrival.ADD).length == len(path)
    along_rows, along_column = x_y(rows, cols, Arrival.ADD, chain)
    assert (along_rows.length, along_rows.variants.shape[1]) == (cols, rows)
    assert (along_column.length, along_column.variants.shape[1]) == (rows, 1)
