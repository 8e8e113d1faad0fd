"""A line schedule returns the messages of each line in each round."""

from __future__ import annotations

import numpy as np

from wse_mappings.schedule import Arrival, even_schedule, uniform_schedule, varied_schedule

STEP = (0, 1, Arrival.ADD)
BACK = (1, 0, Arrival.REPLACE)


def test_uniform_lines_all_carry_out_the_same_messages_in_order() -> None:
    schedule = uniform_schedule("pair", 2, 3, [STEP, BACK], colours=2)
    for line in range(3):
        assert schedule.line_messages(line).tolist() == [list(STEP), list(BACK)]


def test_a_schedule_without_messages_is_still_a_table_of_three_columns() -> None:
    assert uniform_schedule("nothing", 1, 2, [], colours=0).line_messages(1).shape == (0, 3)


def test_varied_lines_choose_among_groups_round_by_round_and_start_again() -> None:
    groups = [[STEP], [], [STEP, BACK]]
    schedule = varied_schedule("mixed", 2, groups, np.array([[0, 2], [1, 0]], np.int32), colours=1)
    told = [[len(schedule.line_messages(line, turn)) for line in range(2)] for turn in range(4)]
    assert told == [[1, 2], [0, 1], [1, 2], [0, 1]]


def test_even_variants_are_those_that_varied_makes_of_the_same_lists() -> None:
    groups = [[STEP, BACK], [BACK, STEP], [STEP, STEP]]
    variants = np.array([[0, 2], [1, 0]], np.int32)
    a, b = (
        varied_schedule("v", 2, groups, variants, colours=1),
        even_schedule("v", 2, np.array(groups), variants, colours=1),
    )
    for name in ("messages", "first", "variants"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype == np.int32
