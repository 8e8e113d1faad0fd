"""Tests of the outcomes of patterns on a line, and of the faults of patterns that compute no collective."""

from dataclasses import replace

import numpy as np
import pytest

from wse_mappings.outcome import outcome_of
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.line_reduces import both_sides, reduce_multicast
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.rings import ring_all_reduce
from wse_mappings.schedule import Arrival, LineSchedule, even_schedule, uniform_schedule, varied_schedule

ADD, REPLACE, MULTICAST = Arrival.ADD, Arrival.REPLACE, Arrival.MULTICAST


@pytest.mark.parametrize("length", [2, 17])
def test_collectives_of_bundled_patterns_are_found_with_their_roots(length: int) -> None:
    schedules = {
        ("reduce", 0): chain(length, 1, ADD),
        ("reduce", length // 2): both_sides(length, 1, ADD, chain),
        ("reduce", root_of(length)): k_tree(length, 1, ADD, broadcast=False),
        ("broadcast", length - 1): multicast(length, 1, length - 1),
        ("gather", length - 1): gather(length, 1, range(length), length - 1),
    }
    for (collective, root), schedule in schedules.items():
        outcome = outcome_of(schedule)
        assert (outcome.collective, outcome.root, outcome.fault) == (collective, root, "")
    for all_reduce in (ring_all_reduce(length, 1, ADD), reduce_multicast(chain(length, 1, ADD), 0)):
        assert outcome_of(all_reduce).collective == "all_reduce"


def line(length: int, *messages: tuple[int, int, Arrival], colours: int = 1) -> LineSchedule:
    """Return a schedule of some messages on one line."""
    return uniform_schedule("mine", length, 1, list(messages), colours)


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        (line(4, (3, 2, ADD), (1, 0, ADD)), "the sum on PE 0 lacks the words of PE 2, 3"),
        (line(3, (2, 1, ADD), (1, 0, ADD), (2, 0, ADD)), "the sum on PE 0 has the words of PE 2 more than once"),
        (line(3, (1, 0, ADD), (2, 1, ADD)), "the sum on PE 1 lacks the words of PE 0"),
        (
            line(4, (3, 2, ADD), (2, 1, ADD), (1, 0, ADD), (0, 2, MULTICAST)),
            "the sum of all is on PE 0 and not on PE 3",
        ),
        (line(4, (0, 2, MULTICAST)), "the words of PE 0 do not reach PE 3"),
        (line(8, (1, 0, REPLACE)), "the words of PE 1 do not reach PE 2, 3, 4, 5 and 2 more"),
        (line(3, (3, 0, ADD)), "message 0 goes from PE 3 to PE 0, on a line of PEs 0 to 2"),
        (line(3, (1, 1, ADD)), "message 0 goes from PE 1 to itself; only an Arrival.COPY may do that"),
        (
            replace(line(3, (2, 1, ADD)), messages=np.array([[2, 1, 9]], np.int32)),
            "message 0 arrives as 9, which is not an Arrival",
        ),
        (
            line(3, (0, 1, MULTICAST), (0, 2, MULTICAST)),
            "messages 0 and 1 are multicasts from PE 0 in the same direction",
        ),
        (
            replace(line(2, (1, 0, ADD)), message_colours=np.array([1], np.int32)),
            "a message has colour 1, but colours = 1; give 2",
        ),
        (gather(4, 1, (1, 2), 0), "2 of 4 PEs have a part of the words"),
    ],
)
def test_faults_of_patterns_are_reported(schedule: LineSchedule, fault: str) -> None:
    outcome = outcome_of(schedule)
    assert outcome.collective is None
    assert outcome.fault.startswith(fault)


def test_duplicate_words_are_not_a_fault_if_the_right_sum_replaces_them() -> None:
    schedule = line(3, (1, 2, ADD), (1, 2, ADD), (2, 1, ADD), (0, 1, REPLACE))
    assert outcome_of(schedule).collective is None
    corrected = line(3, (2, 0, ADD), (1, 0, ADD), (1, 2, ADD), (0, 2, MULTICAST))
    assert outcome_of(corrected).collective == "all_reduce"


STEP = (0, 1, Arrival.ADD)
BACK = (1, 0, Arrival.REPLACE)


def test_even_schedule_equals_varied_schedule_of_the_same_messages() -> None:
    groups = [[STEP, BACK], [BACK, STEP], [STEP, STEP]]
    variants = np.array([[0, 2], [1, 0]], np.int32)
    a, b = (
        varied_schedule("v", 2, groups, variants, colours=1),
        even_schedule("v", 2, np.array(groups), variants, colours=1),
    )
    for name in ("messages", "first", "variants"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype == np.int32
