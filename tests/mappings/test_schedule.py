"""A line schedule returns the messages of each line in each round."""

from __future__ import annotations

import numpy as np

from wse_mappings.schedule import Arrival, even_schedule, varied_schedule

STEP = (0, 1, Arrival.ADD)
BACK = (1, 0, Arrival.REPLACE)


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
