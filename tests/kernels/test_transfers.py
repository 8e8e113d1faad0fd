"""Every transfer kernel equals its oracle, in the words that arrive and in those on links."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from tests.kernels.helpers import (
    BUILDS,
    EXAMPLES,
    JIT,
    NUMPY_TYPE,
    Array,
    ByteRange,
    from_lanes,
    lanes_of,
    lay_out,
    numbers,
    to_lanes,
    view,
)
from wse.backends.execute.calls.line_calls import accumulation_of
from wse.backends.execute.calls.pattern_tables import columns_of, multicasts_cover, runs_of, senders_of
from wse_kernels.communication.column_sums import ACCUMULATE, LOAD, STORE
from wse_kernels.communication.row_messages import MAX_ROWS
from wse_kernels.library import TRANSFER, compiled_kernel
from wse_kernels.oracle import transfers as oracle
from wse_mappings.cuts.recut import cut_anew
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule, varied_schedule

ELEMENTS = ["float16"] if JIT else ["float32", "float16", "bfloat16"]
"""Half is narrower than a word; the others are moved by the tests of logits, and here where nothing is compiled."""
HALVES = slow_but(["float16", "bfloat16"], "float16") if JIT else ELEMENTS
"""Those of sums in vectors, which are compiled to other instructions for each."""
SECOND_LOOKS = ("bfloat16", "serial"), ("float16", "parallel")
IN_VECTORS = (
    [("float16", "serial"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SECOND_LOOKS)]
    if JIT
    else [(element, "serial") for element in ELEMENTS]
)
"""The same with the build of each: the loop in which builds differ is one for all elements."""

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY = 0, 1, 2, 3, 4, 5


def filled(
    rng: np.random.Generator, rows: int, cols: int, sizes: list[int], element: str
) -> tuple[Array, list[ByteRange]]:
    """Return PE memory with one buffer of ``element`` for each size, and the ranges of bytes."""
    stretches, size = lay_out([(n, element) for n in sizes])
    memory = np.zeros((rows, cols, size), np.uint8)
    for stretch, n in zip(stretches, sizes, strict=True):
        memory[..., stretch.start : stretch.end] = (
            numbers(rng, (rows, cols, n)).astype(NUMPY_TYPE[element]).view(np.uint8)
        )
    return memory, stretches


def random_messages(rng: np.random.Generator, length: int, n: int) -> tuple[Array, Array]:
    """Return three variants of up to six messages along a line.

    Messages of (value, index) pairs are included only if the number of elements is even.
    """
    count = rng.integers(0, 7, 3)
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    arrivals = [arrival for arrival in range(7) if arrival != ARGMAX or n % 2 == 0]
    messages = rng.integers(0, length, (first[-1], 3)).astype(np.int32)
    messages[:, 2] = rng.choice(arrivals, first[-1])
    messages[messages[:, 2] == COPY, 1] = messages[messages[:, 2] == COPY, 0]
    return messages, first


def random_stretches(rng: np.random.Generator, messages: Array, n: int) -> Array:
    """Return first element and number of elements of each message; all elements for pairs."""
    first = rng.integers(0, n, len(messages))
    stretches = np.stack([first, rng.integers(0, n - first + 1)], axis=1)
    stretches[messages[:, 2] == ARGMAX] = 0, n
    return stretches.astype(np.int32)


def whole_words(messages: Array, n: int) -> Array:
    """Messages that each send all ``n`` elements."""
    return np.concatenate([messages, np.tile([0, n], (len(messages), 1))], axis=1).astype(np.int32)


def check_messages(
    line: str,
    function: Callable[..., None],
    memory: tuple[Array, list[ByteRange]],
    element: str,
    messages: tuple[Array, ...],
    a: Array,
    spare: int,
    tables: tuple[Array, ...] | None = None,
) -> None:
    """Compare a kernel, which gets the messages or ``tables``, with the oracle that executes messages one by one.

    The oracle gets nonsense for the blocks of a row.
    """
    pes, stretches = memory
    want, cols = pes.copy(), pes.shape[1]
    getattr(oracle, line)(want, element, *messages, np.where(np.arange(len(a)) == 2, -1, a))
    blocked = to_lanes(pes, stretches, spare)
    function(view(blocked, element, cols, spare), *(messages if tables is None else tables), a)
    np.testing.assert_array_equal(from_lanes(blocked, stretches, cols, spare), want)


def check_lines(
    name: str, build: str, element: str, rows: int, cols: int, n: int, options: dict[str, Any], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n, n], element)
    stretches = memory[1]
    length, lines = (cols, rows) if name == "along_rows" else (rows, cols)
    messages, first = random_messages(rng, length, n)
    messages = np.concatenate([messages, random_stretches(rng, messages, n)], axis=1)
    variant = rng.integers(0, 3, lines).astype(np.int32)
    source, target = stretches[0].address, stretches[options["apart"]].address
    per_row = lanes_of(cols)[0]
    first_row, rows_used = options.get("used", (0, rows))
    a = np.array([first_row, rows_used, per_row, source, target, n, options["by_column"], cols, 0], np.int64)
    function = getattr(compiled_kernel(name), build)
    check_messages(name, function, memory, element, (messages, first, variant), a, seed % 3)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 4, 2 * MAX_ROWS + 3]),
    cols=st.sampled_from([1, 2, 3, 7, 13]),
    n=st.integers(1, 6),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_messages_along_rows(build: str, element: str, rows: int, cols: int, n: int, apart: int, seed: int) -> None:
    used = (seed % rows, rows - seed % rows)
    check_lines("along_rows", build, element, rows, cols, n, {"apart": apart, "by_column": 0, "used": used}, seed)


@pytest.mark.parametrize(("element", "build"), IN_VECTORS)
@pytest.mark.parametrize("arrival", [ADD, MAX])
def test_sums_along_rows_that_are_turned(build: str, element: str, arrival: int) -> None:
    """Chains run to the middle from both ends of three blocks, in two parts.

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


@pytest.mark.parametrize(("element", "build"), IN_VECTORS)
@pytest.mark.parametrize("arrival", [ADD, MAX])
def test_sums_along_rows_that_multicasts_fill(build: str, element: str, arrival: int) -> None:
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
    ids=["the first PE is left out", "sums after a multicast", "no sum"],
)
def test_other_multicasts_do_not_cover(group: list[tuple[int, int, Arrival]]) -> None:
    assert not multicasts_cover(uniform_schedule("other", 3, 1, group, colours=1))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("by_column", [0, 1])
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 7, 13]),
    cols=st.integers(1, 4),
    n=st.sampled_from([1, 2, 3, 6, 8, 17, 18]),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_messages_along_columns(
    build: str, element: str, by_column: int, rows: int, cols: int, n: int, apart: int, seed: int
) -> None:
    check_lines("along_columns", build, element, rows, cols, n, {"apart": apart, "by_column": by_column}, seed)


@pytest.mark.parametrize("element", HALVES)
def test_messages_along_columns_in_vectors(element: str) -> None:
    for seed, cols in enumerate((16, 19, 31, 5)):
        check_lines("along_columns", "serial", element, 7, cols, 18, {"apart": seed % 2, "by_column": 0}, seed)


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
    cols=st.sampled_from([1, 2, 5, 40] if JIT else [1, 2, 5]),
    n=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_exchange_is_its_messages(
    build: str, element: str, axis: str, rows: int, cols: int, n: int, seed: int
) -> None:
    check_exchange(build, element, axis, rows, cols, n, seed)


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_an_exchange_among_several_blocks(axis: str) -> None:
    check_exchange("serial", "float16", axis, 2, 130, 2, seed=130)


def check_exchange(build: str, element: str, axis: str, rows: int, cols: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n, n], element)
    schedule = random_exchange(rng, *((cols, rows) if axis == "rows" else (rows, cols)))
    variant, (source, target) = schedule.variants[1], (stretch.address for stretch in memory[1])
    first_row, used = (seed % rows, rows - seed % rows) if axis == "rows" else (0, rows)
    a = np.array([first_row, used, lanes_of(cols)[0], source, target, n, 1, cols], np.int64)
    tables: tuple[Array, ...] = columns_of(schedule, 1)
    if axis == "rows":
        tables = (*runs_of(schedule), variant)
    function = getattr(compiled_kernel(f"exchange_along_{axis}"), build)
    sent = whole_words(schedule.messages, n), schedule.first, variant
    check_messages(f"along_{axis}", function, memory, element, sent, a, seed % 3, tables)


@pytest.mark.parametrize(("element", "build"), IN_VECTORS)
@pytest.mark.parametrize("cols", [16, 19, 48, 140])
@pytest.mark.parametrize("n", [1, 16, 21, 50, 100])
def test_sums_in_place_are_their_messages(build: str, element: str, cols: int, n: int) -> None:
    rows, rng = 3, np.random.default_rng(cols + n)
    memory = filled(rng, rows, cols, [n], element)
    arrivals = rng.choice([Arrival.REPLACE, ADD, ADD, MULTICAST, COPY, Arrival.DROP], (2, 3 * cols))
    ends = rng.integers(0, cols, (2, 3 * cols, 2))
    ends[arrivals == COPY, 1] = ends[arrivals == COPY, 0]
    groups = [
        [(*end, Arrival(arrival)) for end, arrival in zip(*of, strict=True)] for of in zip(ends, arrivals, strict=True)
    ]
    schedule = varied_schedule("sums", cols, groups, rng.integers(0, 2, (1, rows)).astype(np.int32), colours=1)
    address = memory[1][0].address
    a = np.array([1, rows - 1, lanes_of(cols)[0], address, address, n, 0, cols], np.int64)
    lines = schedule.first, schedule.variants[0]
    function = getattr(compiled_kernel("along_rows_in_place"), build)
    sent, tables = (whole_words(schedule.messages, n), *lines), (schedule.messages, *lines)
    check_messages("along_rows", function, memory, element, sent, a, cols % 3, tables)


@pytest.mark.parametrize(("element", "build"), IN_VECTORS)
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
    drawn = [(*end, kinds[i]) for end, i in zip(ends, rng.integers(0, len(kinds), 2 * rows), strict=True)]
    messages = [(a, a if kind == COPY else b, kind) for a, b, kind in drawn if a != b or kind != ADD]
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
    kept = accumulation_of(uniform_schedule("sums", 5, 1, chains, colours=1))
    assert kept is not None
    assert [pe for kind, pe, _ in kept.tolist() if kind == STORE] == [1, 2, 3, 2]


@pytest.mark.parametrize(
    "messages",
    [[[(0, 1, ARGMAX)]], [[(1, 1, ADD)]], [[(0, 1, ADD)], [(1, 0, ADD)]]],
    ids=["pairs", "a sum doubled", "lines that differ"],
)
def test_other_messages_have_no_accumulator(messages: list[list[tuple[int, int, Arrival]]]) -> None:
    variants = np.arange(2, dtype=np.int32)[None] % len(messages)
    assert accumulation_of(varied_schedule("other", 3, messages, variants, colours=1)) is None


@pytest.mark.parametrize(
    "messages",
    [[(0, 1, Arrival.ADD)], [(0, 2, Arrival.MULTICAST)], [(0, 1, Arrival.REPLACE), (2, 1, Arrival.COPY)]],
    ids=["sums", "several PEs", "a PE twice"],
)
def test_other_messages_are_no_exchange(messages: list[tuple[int, int, Arrival]]) -> None:
    assert senders_of(uniform_schedule("other", 3, 1, messages, colours=1)) is None


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 3, 7]),
    cols=st.sampled_from([1, 3, 130]),
    each=st.integers(1, 5),
    most=st.integers(1, 3),
    without_pairs=st.integers(0, 3),
    apart=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_counted_messages_are_as_long_as_the_columns_count(
    build: str, element: str, rows: int, cols: int, each: int, most: int, without_pairs: int, apart: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n = without_pairs + each * most
    stretches, size = lay_out([(n, element), (n, element), (1, "float32")])
    memory = np.zeros((rows, cols, size), np.uint8)
    for stretch in stretches[:2]:
        values = numbers(rng, (rows, cols, n)).astype(NUMPY_TYPE[element])
        memory[..., stretch.start : stretch.end] = values.view(np.uint8)
    counts = np.broadcast_to(rng.integers(-1, most + 2, (1, cols, 1)), (rows, cols, 1))
    memory[..., stretches[2].start : stretches[2].end] = counts.astype(np.float32, order="C").view(np.uint8)
    messages, first = random_messages(rng, rows, 1)
    messages[:, 2] = rng.choice([REPLACE, ADD, MULTICAST], len(messages))
    variant = rng.integers(0, 3, 1).astype(np.int32)
    element_bytes = NUMPY_TYPE[element].itemsize
    addresses = [stretches[0].address, stretches[apart].address]
    counted_by = (stretches[2].address, most, without_pairs)
    a = np.array([0, rows, lanes_of(cols)[0], *addresses, each, 0, cols, element_bytes, *counted_by])
    want, links = memory.copy(), np.zeros((4, rows, cols), np.int64)
    oracle.along_columns_counted(want, memory, element, links, messages, first, variant, a)
    function = getattr(compiled_kernel("along_columns_counted"), build)
    spare = seed % 3
    blocked, counted = to_lanes(memory, stretches, spare), np.zeros_like(links)
    views = [view(blocked, kind, cols, spare) for kind in (element, "float32")]
    function(*views, counted, messages, first, variant, a)
    np.testing.assert_array_equal(from_lanes(blocked, stretches, cols, spare), want)
    np.testing.assert_array_equal(counted, links)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("cols", [129, 257])
@pytest.mark.parametrize(("name", "by_column"), [("along_rows", 0), ("along_columns", 0), ("along_columns", 1)])
def test_messages_over_several_blocks_a_row(build: str, name: str, by_column: int, cols: int) -> None:
    for seed in range(3):
        check_lines(name, build, "float16", 3, cols, 2, {"apart": seed % 2, "by_column": by_column}, seed)


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
    memory, stretches = filled(rng, rows, cols, [capacity * n], element)
    ctl = rng.integers(0, capacity, (rows, 8)).astype(np.int32)
    ctl[rng.random(rows) < 0.4, 5] = -1
    a = np.array([rows, lanes_of(cols)[0], stretches[0].address, n, 3, cols], np.int64)
    want, links = memory.copy(), np.zeros((4, rows, cols), np.int64)
    oracle.cache_shift(want, element, links, ctl, a)
    function = getattr(compiled_kernel("cache_shift"), build)
    spare = seed % 3
    blocked, counted = to_lanes(memory, stretches, spare), np.zeros_like(links)
    function(view(blocked, element, cols, spare), counted, ctl, a)
    np.testing.assert_array_equal(from_lanes(blocked, stretches, cols, spare), want)
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
    source, source_stretches = filled(rng, rows[0], cols[0], [vectors * widths[0]], element)
    target, target_stretches = filled(rng, rows[1], cols[1], [2, vectors * widths[1]], element)
    source_col, target_col = (int(rng.integers(0, c)) for c in cols)
    count = int(rng.integers(0, min(cols[0] - source_col, cols[1] - target_col) + 1))
    blocks = [lanes_of(c)[0] for c in cols]
    addresses = [source_stretches[0].address, target_stretches[1].address]
    corners = rng.integers(0, 6, 4)
    pieces = cut_anew(extent, *rows)
    words = rng.integers(0, 3, len(pieces))
    a = np.array(
        [vectors, *blocks, *addresses, widths[0], source_col, target_col, count, widths[1], *corners, stride], np.int64
    )
    want, links = target.copy(), np.zeros((4, 6 + max(rows), 6 + max(cols)), np.int64)
    oracle.hand_over(source, want, element, links, pieces, words, a)
    function = compiled_kernel("hand_over").serial
    sent, received = to_lanes(source, source_stretches), to_lanes(target, target_stretches, spare=1)
    counted = np.zeros_like(links)
    function(view(sent, element, cols[0]), view(received, element, cols[1], spare=1), counted, pieces, words, a)
    np.testing.assert_array_equal(counted, links)
    np.testing.assert_array_equal(from_lanes(received, target_stretches, cols[1], spare=1), want)
    np.testing.assert_array_equal(from_lanes(sent, source_stretches, cols[0]), source)


def test_every_transfer_kernel_is_tested_here() -> None:
    lines = {"along_rows", "along_columns", "along_columns_counted", "exchange_along_rows", "exchange_along_columns"}
    in_place = {"along_columns_in_place", "along_rows_in_place"}
    assert set(TRANSFER) == lines | in_place | {"cache_shift", "hand_over"}
