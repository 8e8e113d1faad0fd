"""Tests of sums along lines: kernels in vectors or in place give the results of single messages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import EXAMPLES, JIT, lanes_of
from tests.kernels.messages import (
    ADD,
    ARGMAX,
    COPY,
    HALVES,
    MAX,
    MULTICAST,
    REPLACE,
    VECTOR_CASES,
    check_lines,
    check_messages,
    filled,
    whole_words,
)
from wse.backends.execute.calls.line_calls import accumulation_of
from wse.backends.execute.calls.pattern_tables import multicasts_cover
from wse_kernels.communication.column_sums import ACCUMULATE, LOAD, STORE
from wse_kernels.library import compiled_kernel
from wse_mappings.schedule import Arrival, uniform_schedule, varied_schedule


@pytest.mark.parametrize(("element", "build"), VECTOR_CASES)
@pytest.mark.parametrize("arrival", [ADD, MAX])
def test_sums_along_rows_that_are_transposed(build: str, element: str, arrival: int) -> None:
    """Chains run from both ends of three blocks to the middle, in two parts.

    Some rows have other messages in between.
    """
    rng = np.random.default_rng(5)
    rows, cols, n, middle = (35, 259, 6, 130) if JIT else (18, 131, 3, 65)
    chain = [(col, col + 1) for col in range(middle)] + [(col, col - 1) for col in range(cols - 1, middle, -1)]
    parts = [(n // 2, n - n // 2), (0, n // 2)]
    messages = [(*ends, arrival, *part) for part in parts for ends in chain]
    messages += [(middle, 0, MULTICAST, 0, n), (middle, cols - 1, MULTICAST, 1, 1), (3, 9, REPLACE, 1, 1)]
    others = [*messages[5:9], (7, 2, REPLACE, 0, n), *messages[2:40]]
    first = np.array([0, len(messages), len(messages) + len(others)], np.int32)
    variant = (np.arange(rows) // 3 == 4).astype(np.int32)
    memory = filled(rng, rows, cols, [n], element)
    address = memory[1][0].address
    a = np.array([1, rows - 2, lanes_of(cols)[0], address, address, n, 0, cols, 0], np.int64)
    sent = np.array([*messages, *others], np.int32), first, variant
    check_messages("along_rows", getattr(compiled_kernel("along_rows"), build), memory, element, sent, a, spare=1)


@pytest.mark.parametrize(("element", "build"), VECTOR_CASES)
@pytest.mark.parametrize("arrival", [ADD, MAX])
def test_sums_along_rows_that_multicasts_cover(build: str, element: str, arrival: int) -> None:
    """Chains run to a middle PE and to each end, in two parts of a row.

    Other rows have few sums, which are not transposed.
    """
    rng = np.random.default_rng(6)
    rows, cols, n, middle = (35, 259, 9, 130) if JIT else (18, 131, 3, 65)
    kind, last = Arrival(arrival), cols - 1
    to_middle = [(col, col + 1, kind) for col in range(middle)] + [
        (col, col - 1, kind) for col in range(last, middle, -1)
    ]
    to_ends = [(col, col - 1, kind) for col in range(middle, 0, -1)] + [
        (col, col + 1, kind) for col in range(middle + 1, last)
    ]
    groups = [
        [*to_middle, (middle, 0, Arrival.MULTICAST), (middle, last, Arrival.MULTICAST)],
        [*to_ends, (0, middle, Arrival.MULTICAST), (last, middle + 1, Arrival.MULTICAST)],
        [(1, 0, kind), (0, last, Arrival.MULTICAST)],
    ]
    variants = (np.arange(rows, dtype=np.int32) // 5 % 3)[None]
    schedule = varied_schedule("sums", cols, groups, variants, colours=1)
    assert multicasts_cover(schedule)
    memory = filled(rng, rows, cols, [n], element)
    address = memory[1][0].address
    a = np.array([1, rows - 2, lanes_of(cols)[0], address, address, n, 0, cols, 1], np.int64)
    sent = whole_words(schedule.messages, n), schedule.first, variants[0]
    check_messages("along_rows", getattr(compiled_kernel("along_rows"), build), memory, element, sent, a, spare=1)


@pytest.mark.parametrize(
    "group",
    [
        [(0, 1, Arrival.ADD), (1, 2, Arrival.ADD), (2, 1, Arrival.MULTICAST)],
        [(0, 1, Arrival.ADD), (1, 0, Arrival.MULTICAST), (2, 1, Arrival.ADD), (1, 2, Arrival.MULTICAST)],
        [(0, 1, Arrival.REPLACE), (1, 0, Arrival.MULTICAST)],
    ],
    ids=["the first PE does not receive", "sums after a multicast", "no sum"],
)
def test_multicasts_cover_is_false_for_other_messages(group: list[tuple[int, int, Arrival]]) -> None:
    assert not multicasts_cover(uniform_schedule("other", 3, 1, group, colours=1))


@pytest.mark.parametrize("element", HALVES)
def test_messages_along_columns_in_vectors(element: str) -> None:
    for seed, cols in enumerate((16, 19, 31, 5)):
        check_lines("along_columns", "serial", element, 7, cols, 18, {"apart": seed % 2, "by_column": 0}, seed)


@pytest.mark.parametrize(("element", "build"), VECTOR_CASES)
@pytest.mark.parametrize("cols", [16, 19, 48, 140] if JIT else [19, 140])
@pytest.mark.parametrize("n", [1, 16, 21, 50, 100] if JIT else [1, 21])
def test_sums_in_place_equal_their_messages(build: str, element: str, cols: int, n: int) -> None:
    rows, rng = 3, np.random.default_rng(cols + n)
    memory = filled(rng, rows, cols, [n], element)
    arrivals = rng.choice([Arrival.REPLACE, ADD, ADD, MULTICAST, COPY, Arrival.DROP], (2, 3 * cols))
    ends = rng.integers(0, cols, (2, 3 * cols, 2))
    ends[arrivals == COPY, 1] = ends[arrivals == COPY, 0]
    groups = [
        [(*end, Arrival(arrival)) for end, arrival in zip(*group_ends, strict=True)]
        for group_ends in zip(ends, arrivals, strict=True)
    ]
    schedule = varied_schedule("sums", cols, groups, rng.integers(0, 2, (1, rows)).astype(np.int32), colours=1)
    address = memory[1][0].address
    a = np.array([1, rows - 1, lanes_of(cols)[0], address, address, n, 0, cols], np.int64)
    lines = schedule.first, schedule.variants[0]
    function = getattr(compiled_kernel("along_rows_in_place"), build)
    sent, tables = (whole_words(schedule.messages, n), *lines), (schedule.messages, *lines)
    check_messages("along_rows", function, memory, element, sent, a, cols % 3, tables)


@pytest.mark.parametrize(("element", "build"), VECTOR_CASES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.integers(1, 13),
    cols=st.sampled_from([1, 3, 16, 130]),
    n=st.sampled_from([1, 2, 9, 17]),
    seed=st.integers(0, 2**32 - 1),
)
def test_messages_along_columns_in_place(build: str, element: str, rows: int, cols: int, n: int, seed: int) -> None:
    """Messages are arbitrary, including ones that no pattern has.

    Examples are words that were sent before, and words that are sent to several PEs.
    """
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n], element)
    ends, kinds = rng.integers(0, rows, (2 * rows, 2)).tolist(), list(set(Arrival) - {Arrival.ARGMAX})
    random_triples = [(*end, kinds[i]) for end, i in zip(ends, rng.integers(0, len(kinds), 2 * rows), strict=True)]
    messages = [(a, a if kind == COPY else b, kind) for a, b, kind in random_triples if a != b or kind != ADD]
    schedule = uniform_schedule("any", rows, cols, messages, colours=1)
    a = np.array([0, rows, lanes_of(cols)[0], *[memory[1][0].address] * 2, n, 0, cols], np.int64)
    program = accumulation_of(schedule)
    assert program is not None
    sent = whole_words(schedule.messages, n), schedule.first, schedule.variants[0]
    function = getattr(compiled_kernel("along_columns_in_place"), build)
    check_messages("along_columns", function, memory, element, sent, a, seed % 3, (program,))


def test_sums_that_a_multicast_overwrites_are_stored_once() -> None:
    """Two chains lead to PE 2. Without the multicast, each PE keeps the sum that it has sent on."""
    chains = [(0, 1, ADD), (1, 2, ADD), (4, 3, ADD), (3, 2, ADD)]
    sums = [(LOAD, 0), (ACCUMULATE, 1), (ACCUMULATE, 2), (STORE, 2), (LOAD, 4), (ACCUMULATE, 3), (ACCUMULATE, 2)]
    ends = [(2, 0, MULTICAST), (2, 4, MULTICAST)]
    program = accumulation_of(uniform_schedule("sums", 5, 1, [*chains, *ends], colours=1))
    assert program is not None
    assert program.tolist() == [*([kind, pe, pe] for kind, pe in sums), [STORE, 0, 2], [STORE, 2, 4]]
    without_multicast = accumulation_of(uniform_schedule("sums", 5, 1, chains, colours=1))
    assert without_multicast is not None
    assert [pe for kind, pe, _ in without_multicast.tolist() if kind == STORE] == [1, 2, 3, 2]


@pytest.mark.parametrize(
    "messages",
    [[[(0, 1, ARGMAX)]], [[(1, 1, ADD)]], [[(0, 1, ADD)], [(1, 0, ADD)]]],
    ids=["pairs", "a PE that adds its own value", "different lines"],
)
def test_other_messages_have_no_accumulator(messages: list[list[tuple[int, int, Arrival]]]) -> None:
    variants = np.arange(2, dtype=np.int32)[None] % len(messages)
    assert accumulation_of(varied_schedule("other", 3, messages, variants, colours=1)) is None
