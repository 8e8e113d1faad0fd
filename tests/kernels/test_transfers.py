"""Tests of transfer kernels: memory and words on links equal those of their oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import (
    BUILDS,
    EXAMPLES,
    JIT,
    NUMPY_TYPE,
    Array,
    from_lanes,
    lanes_of,
    lay_out,
    numbers,
    to_lanes,
    view,
)
from tests.kernels.messages import (
    ADD,
    ELEMENTS,
    MULTICAST,
    REPLACE,
    check_lines,
    check_messages,
    filled,
    random_messages,
    whole_words,
)
from wse.backends.execute.calls.pattern_tables import columns_of, runs_of, senders_of
from wse_kernels.communication.row_messages import MAX_ROWS
from wse_kernels.library import TRANSFER, compiled_kernel
from wse_kernels.oracle import transfers as oracle
from wse_mappings.cuts.split import redistribution
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule, varied_schedule


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 4, 2 * MAX_ROWS + 3]),
    cols=st.sampled_from([1, 2, 7, 13, 129, 257]),
    n=st.integers(1, 6),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_messages_along_rows(build: str, element: str, rows: int, cols: int, n: int, apart: int, seed: int) -> None:
    used = (seed % rows, rows - seed % rows)
    check_lines("along_rows", build, element, rows, cols, n, {"apart": apart, "by_column": 0, "used": used}, seed)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("by_column", [0, 1])
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 7, 13]),
    cols=st.sampled_from([1, 2, 4, 129, 257]),
    n=st.sampled_from([1, 2, 3, 6, 8, 17, 18]),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_messages_along_columns(
    build: str, element: str, by_column: int, rows: int, cols: int, n: int, apart: int, seed: int
) -> None:
    check_lines("along_columns", build, element, rows, cols, n, {"apart": apart, "by_column": by_column}, seed)


def random_exchange(rng: np.random.Generator, length: int, lines: int) -> LineSchedule:
    """Return two variants of an exchange, mostly shifts. Some words are stored nowhere."""
    groups = []
    for _ in range(2):
        targets = rng.permutation(length)[: rng.integers(1, length + 1)]
        sources = (targets + rng.choice([-2, -1, 0, 2], len(targets))) % length
        arrivals = np.where(sources == targets, Arrival.COPY, rng.choice([Arrival.REPLACE, Arrival.DROP]))
        groups.append(list(zip(sources.tolist(), targets.tolist(), map(Arrival, arrivals), strict=True)))
    variants = rng.integers(0, 2, (3, lines)).astype(np.int32)
    return varied_schedule("exchange", length, groups, variants, colours=1)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 7]),
    cols=st.sampled_from([1, 2, 5, 130] if JIT else [1, 2, 5]),
    n=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_exchange_equals_its_messages(
    build: str, element: str, axis: str, rows: int, cols: int, n: int, seed: int
) -> None:
    """The exchange kernel of an axis is compared with its oracle on a random exchange of ``n`` elements."""
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n, n], element)
    schedule = random_exchange(rng, *((cols, rows) if axis == "rows" else (rows, cols)))
    variant, (source, target) = schedule.variants[1], (byte_range.address for byte_range in memory[1])
    first_row, used = (seed % rows, rows - seed % rows) if axis == "rows" else (0, rows)
    a = np.array([first_row, used, lanes_of(cols)[0], source, target, n, 1, cols], np.int64)
    tables: tuple[Array, ...] = columns_of(schedule, 1)
    if axis == "rows":
        tables = (*runs_of(schedule), variant)
    function = getattr(compiled_kernel(f"exchange_along_{axis}"), build)
    sent = whole_words(schedule.messages, n), schedule.first, variant
    check_messages(f"along_{axis}", function, memory, element, sent, a, seed % 3, tables)


@pytest.mark.parametrize(
    "messages",
    [[(0, 1, Arrival.ADD)], [(0, 2, Arrival.MULTICAST)], [(0, 1, Arrival.REPLACE), (2, 1, Arrival.COPY)]],
    ids=["sums", "several PEs", "a PE twice"],
)
def test_other_messages_are_not_an_exchange(messages: list[tuple[int, int, Arrival]]) -> None:
    assert senders_of(uniform_schedule("other", 3, 1, messages, colours=1)) is None


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 7]),
    cols=st.sampled_from([1, 3, 130]),
    per_pair=st.integers(1, 5),
    max_pairs=st.integers(1, 3),
    without_pairs=st.integers(0, 3),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_counted_messages_have_the_length_of_the_column_counters(
    build: str,
    element: str,
    rows: int,
    cols: int,
    per_pair: int,
    max_pairs: int,
    without_pairs: int,
    apart: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n = without_pairs + per_pair * max_pairs
    ranges, size = lay_out([(n, element), (n, element), (1, "float32")])
    memory = np.zeros((rows, cols, size), np.uint8)
    for byte_range in ranges[:2]:
        values = numbers(rng, (rows, cols, n)).astype(NUMPY_TYPE[element])
        memory[..., byte_range.start : byte_range.end] = values.view(np.uint8)
    counts = np.broadcast_to(rng.integers(-1, max_pairs + 2, (1, cols, 1)), (rows, cols, 1))
    memory[..., ranges[2].start : ranges[2].end] = counts.astype(np.float32, order="C").view(np.uint8)
    messages, first = random_messages(rng, rows, 1)
    messages[:, 2] = rng.choice([REPLACE, ADD, MULTICAST], len(messages))
    variant = rng.integers(0, 3, 1).astype(np.int32)
    element_bytes = NUMPY_TYPE[element].itemsize
    addresses = [ranges[0].address, ranges[apart].address]
    counted_by = (ranges[2].address, max_pairs, without_pairs)
    a = np.array([0, rows, lanes_of(cols)[0], *addresses, per_pair, 0, cols, element_bytes, *counted_by])
    want, links = memory.copy(), np.zeros((4, rows, cols), np.int64)
    oracle.along_columns_counted(want, memory, element, links, messages, first, variant, a)
    function = getattr(compiled_kernel("along_columns_counted"), build)
    spare = seed % 3
    blocked, counted = to_lanes(memory, ranges, spare), np.zeros_like(links)
    views = [view(blocked, kind, cols, spare) for kind in (element, "float32")]
    function(*views, counted, messages, first, variant, a)
    np.testing.assert_array_equal(from_lanes(blocked, ranges, cols, spare), want)
    np.testing.assert_array_equal(counted, links)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.integers(1, 7),
    cols=st.sampled_from([1, 3, 130]),
    n=st.integers(1, 3),
    capacity=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_cache_shift_moves_all_entries_as_if_at_once(
    build: str, element: str, rows: int, cols: int, n: int, capacity: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    memory, ranges = filled(rng, rows, cols, [capacity * n], element)
    ctl = rng.integers(0, capacity, (rows, 8)).astype(np.int32)
    ctl[rng.random(rows) < 0.4, 5] = -1
    a = np.array([rows, lanes_of(cols)[0], ranges[0].address, n, 3, cols], np.int64)
    want, links = memory.copy(), np.zeros((4, rows, cols), np.int64)
    oracle.cache_shift(want, element, links, ctl, a)
    function = getattr(compiled_kernel("cache_shift"), build)
    spare = seed % 3
    blocked, counted = to_lanes(memory, ranges, spare), np.zeros_like(links)
    function(view(blocked, element, cols, spare), counted, ctl, a)
    np.testing.assert_array_equal(from_lanes(blocked, ranges, cols, spare), want)
    np.testing.assert_array_equal(counted, links)


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    cols=st.tuples(st.sampled_from([1, 5, 129]), st.sampled_from([1, 5, 131])),
    extent=st.integers(1, 7),
    vectors=st.integers(1, 2),
    stride=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_hand_over_copies_between_regions_of_any_two_shapes(
    element: str, rows: tuple[int, int], cols: tuple[int, int], extent: int, vectors: int, stride: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    widths = [-(-extent // r) for r in rows]
    source, source_ranges = filled(rng, rows[0], cols[0], [vectors * widths[0]], element)
    target, target_ranges = filled(rng, rows[1], cols[1], [2, vectors * widths[1]], element)
    source_col, target_col = (int(rng.integers(0, c)) for c in cols)
    count = int(rng.integers(0, min(cols[0] - source_col, cols[1] - target_col) + 1))
    blocks = [lanes_of(c)[0] for c in cols]
    addresses = [source_ranges[0].address, target_ranges[1].address]
    corners = rng.integers(0, 6, 4)
    segments = redistribution(extent, *rows)
    words = rng.integers(0, 3, len(segments))
    a = np.array(
        [vectors, *blocks, *addresses, widths[0], source_col, target_col, count, widths[1], *corners, stride], np.int64
    )
    want, links = target.copy(), np.zeros((4, 6 + max(rows), 6 + max(cols)), np.int64)
    oracle.hand_over(source, want, element, links, segments, words, a)
    function = compiled_kernel("hand_over").serial
    sent, received = to_lanes(source, source_ranges), to_lanes(target, target_ranges, spare=1)
    counted = np.zeros_like(links)
    function(view(sent, element, cols[0]), view(received, element, cols[1], spare=1), counted, segments, words, a)
    np.testing.assert_array_equal(counted, links)
    np.testing.assert_array_equal(from_lanes(received, target_ranges, cols[1], spare=1), want)
    np.testing.assert_array_equal(from_lanes(sent, source_ranges, cols[0]), source)


def test_every_transfer_kernel_is_tested_here() -> None:
    lines = {"along_rows", "along_columns", "along_columns_counted", "exchange_along_rows", "exchange_along_columns"}
    in_place = {"along_columns_in_place", "along_rows_in_place"}
    assert set(TRANSFER) == lines | in_place | {"cache_shift", "hand_over"}
