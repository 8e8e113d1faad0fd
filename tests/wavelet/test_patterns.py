"""Tests of the patterns of the mappings in the wavelet simulator: values, link words, colours and cycles."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_copies import memory_after_copies

from tests.mappings.replay import replay
from tests.wavelet.line_machines import WSE2, WSE3, cycles, small_numbers
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.plan import plan_line
from wse.backends.wavelet.run import run
from wse.hardware.spec import WaferSpec
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.auto_gen import auto_gen
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.line_reduces import both_sides, reduce_multicast
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast, shared_multicast
from wse_mappings.patterns.pattern import Reduce
from wse_mappings.patterns.rectangles import snake, snake_path, x_y
from wse_mappings.patterns.rings import ring_align, ring_all_reduce, ring_keep, ring_reduce, ring_shift
from wse_mappings.patterns.star import star
from wse_mappings.patterns.streams import point_to_point, translation
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

ADD = Arrival.ADD
IN_PLACE: dict[str, Callable[[int, int], LineSchedule]] = {
    "chain": lambda length, _: chain(length, length, ADD),
    "star": lambda length, _: star(length, length, Arrival.MAX),
    "two_phase": lambda length, other: two_phase(length, length, ADD, 1 + other % length),
    "binary_tree": lambda length, _: binary_tree(length, length, ADD),
    "auto_gen": lambda length, other: auto_gen(length, length, ADD, 1 + other % length),
    "both_sides": lambda length, _: both_sides(length, length, ADD, binary_tree),
    "reduce_multicast": lambda length, _: reduce_multicast(both_sides(length, length, ADD, two_phase), length // 2),
    "reduce": lambda length, _: k_tree(length, length, ADD, broadcast=False),
    "all_reduce": lambda length, _: k_tree(length, length, ADD, broadcast=True),
    "levels": lambda length, other: k_tree(length, length, ADD, broadcast=other % 2 == 0, groups=levels(length, other)),
    "segments": lambda length, other: k_tree(length, length, ADD, broadcast=True, segments=halves(length, other)),
    "ring_reduce": lambda length, _: ring_reduce(length),
    "ring_reduce stored": lambda length, _: ring_reduce(length, store_and_forward=True),
}
MOVES: dict[str, Callable[[int, int], LineSchedule]] = {
    "multicast": lambda length, other: multicast(length, length, other % length),
    "diagonal_multicast": lambda length, _: diagonal_multicast(length),
    "diagonal_stream": lambda length, _: diagonal_stream(length),
    "point_to_point": lambda length, other: point_to_point(length, length, streams(length, other)),
    "ring_shift": lambda length, _: ring_shift(length, length),
    "ring_align": lambda length, _: ring_align(length),
    "ring_keep": lambda length, _: ring_keep(length),
}


def halves(length: int, other: int) -> tuple[tuple[int, int], ...]:
    """Return the (first PE, number of PEs) of up to two segments of a line; ``other`` selects where it is divided."""
    first = 1 + other % length
    return ((0, first), (first, length - first)) if first < length else ((0, length),)


def levels(length: int, other: int) -> tuple[int, ...]:
    """Return the group sizes of a tree with one to four levels."""
    first = 1 + other % length
    return (first, 1 + other // 3 % first, 1)[: other % 4]


def streams(length: int, other: int) -> tuple[tuple[int, int], ...]:
    """Return (source, target) of up to three streams in both directions."""
    ends = [(0, length - 1), (length - 1, length // 2), (length // 3, 0)][: 1 + other % 3]
    return tuple((source, target) for source, target in ends if source != target)


def link_words(
    schedule: LineSchedule, line: int, round_: int, words: int
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Count the words on the links of a line: int64 ``[2, PEs]``, to the east and to the west of each PE.

    A message that leaves a PE in both directions is counted in both.
    """
    links = np.zeros((2, schedule.length), np.int64)
    for source, target, arrival in schedule.line_messages(line, round_).tolist():
        if arrival != Arrival.COPY:
            links[0, source:target] += words
            links[1, target + 1 : source + 1] += words
    return links


@pytest.mark.parametrize("length", [2, 7, 90])
@pytest.mark.parametrize(("groups", "broadcast"), [(None, True), ((), False), ((5,), True), ((6, 2), True)])
def test_k_tree_needs_few_colours_and_no_switches(
    length: int, groups: tuple[int, ...] | None, *, broadcast: bool
) -> None:
    """Every PE has one route per colour, so no routes are switched."""
    segments = ((0, length), (length, length))
    tree = k_tree(
        2 * length, 1, Arrival.ADD, broadcast=broadcast, segments=segments, groups=groups, shared_colours=True
    )
    plan = plan_line(tree.messages)
    assert plan.colours <= tree.colours
    assert all(len(turns) == 1 for turns in plan.positions.values())


@pytest.mark.parametrize(("length", "root"), [(2, 0), (9, 4), (9, 8)])
def test_multicast_needs_one_colour(length: int, root: int) -> None:
    for schedule in (
        multicast(length, 1, root, shared_colours=True),
        shared_multicast(length, 1, 0, length, 2, shared_colours=True),
    ):
        assert plan_line(schedule.variant_messages(0)[0]).colours <= schedule.colours == 1


@given(
    name=st.sampled_from([*IN_PLACE, *MOVES]),
    length=st.integers(1, 24),
    words=st.integers(1, 40),
    gap=st.sampled_from([0, 16, 52]),
    other=st.integers(0, 999),
    wafer=st.sampled_from([WSE2, WSE3]),
)
@settings(max_examples=25, deadline=None)
def test_values_and_link_words_follow_the_messages(
    name: str, length: int, words: int, gap: int, other: int, wafer: WaferSpec
) -> None:
    schedule = (IN_PLACE | MOVES)[name](length, other)
    line, round_ = other % schedule.variants.shape[1], other // 7 % len(schedule.variants)
    moves = name in MOVES
    machine = WaveletMachine(wafer, 1, length, 2 * words)
    lines = Lines(machine=machine, gap_cycles=gap)
    pes = [(0, col) for col in range(length)]
    used = lines.path(schedule, pes, words, target=words * moves, line=line, round_=round_)
    assert used <= schedule.colours
    memory = small_numbers(machine, other)
    before = memory[0]
    result = run(machine, memory_after_copies(lines, memory))
    target = list(before[:, words:]) if moves else None
    if name == "star":
        expected = [*before[:, :words]]
        expected[0] = before[:, :words].max(axis=0)
    else:
        expected = replay(schedule, list(before[:, :words]), target, line, round_)
    np.testing.assert_array_equal(result.memory[0, :, words * moves :][:, :words], np.stack(expected))
    np.testing.assert_array_equal(result.link_words[[1, 3], 0], link_words(schedule, line, round_, words))


@pytest.mark.parametrize(
    ("reduce", "rows", "cols", "words"),
    [(chain, 4, 4, 1), (chain, 5, 9, 30), (star, 5, 9, 30), (binary_tree, 16, 16, 256), (two_phase, 32, 8, 16)],
)
def test_x_y_reduces_along_rows_and_then_along_a_column(reduce: Reduce, rows: int, cols: int, words: int) -> None:
    """The cycles are the sum of both reduces (Luczynski et al., HPDC 2024), plus one launch gap between them."""
    gap = 16
    along_rows, along_column = x_y(rows, cols, ADD, reduce)
    machine = WaveletMachine(WSE2, rows, cols, words)
    lines = Lines(machine=machine, gap_cycles=gap)
    colour = lines.rows(along_rows, words)
    lines.path(along_column, [(row, 0) for row in range(rows)], words, colour=colour)
    cycles_of_reduces, memory = (
        [cycles(reduce(length, 1, ADD), words, gap=gap) for length in (cols, rows)],
        small_numbers(machine),
    )
    result = run(machine, memory)
    np.testing.assert_array_equal(result.memory[0, 0], memory.sum(axis=(0, 1)))
    assert result.cycles == sum(cycles_of_reduces) + gap
    if reduce is chain:
        stage = 2 * WSE2.ramp_cycles + 2
        assert cycles_of_reduces == [words + stage * (length - 1) for length in (cols, rows)]


@pytest.mark.parametrize(("rows", "cols"), [(6, 1), (5, 7)])
def test_snake_is_a_chain_over_all_pes(rows: int, cols: int) -> None:
    machine = WaveletMachine(WSE2, rows, cols, 30)
    Lines(machine=machine, gap_cycles=16).path(snake(rows, cols, ADD), snake_path(rows, cols), 30)
    memory = small_numbers(machine)
    result = run(machine, memory)
    np.testing.assert_array_equal(result.memory[0, 0], memory.sum(axis=(0, 1)))
    assert result.cycles == 30 + 6 * (rows * cols - 1)


@given(length=st.integers(1, 17), words=st.integers(1, 70), seed=st.integers(0, 99))
@settings(max_examples=12, deadline=None)
def test_ring_all_reduce_gives_every_pe_the_sum(length: int, words: int, seed: int) -> None:
    schedule = ring_all_reduce(length, 1, ADD)
    machine = WaveletMachine(WSE2, 1, length, words)
    assert Lines(machine=machine, gap_cycles=16).rows(schedule, words) <= schedule.colours
    memory = small_numbers(machine, seed)
    result = run(machine, memory)
    np.testing.assert_array_equal(result.memory[0], np.broadcast_to(memory[0].sum(axis=0), (length, words)))


@st.composite
def disjoint_rectangles(draw: st.DrawFn) -> tuple[int, int, Rect, Rect]:
    """Draw two disjoint rectangles of equal size in a larger one: (rows, cols, source, target)."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    all_rows, all_cols = draw(st.integers(rows, 10)), draw(st.integers(cols, 10))
    source, target = (
        Rect(draw(st.integers(0, all_rows - rows)), draw(st.integers(0, all_cols - cols)), rows, cols) for _ in range(2)
    )
    is_disjoint = abs(target.row - source.row) >= rows or abs(target.col - source.col) >= cols
    return (
        (all_rows, all_cols, source, target)
        if is_disjoint
        else (rows, 2 * cols, Rect(0, 0, rows, cols), Rect(0, cols, rows, cols))
    )


@given(case=disjoint_rectangles(), words=st.integers(1, 30), wafer=st.sampled_from([WSE2, WSE3]))
@settings(max_examples=15, deadline=None)
def test_translation_moves_a_rectangle_of_words(
    case: tuple[int, int, Rect, Rect], words: int, wafer: WaferSpec
) -> None:
    rows, cols, source, target = case
    schedule = translation(rows, cols, source, target, [(row, row, words) for row in range(source.rows)])
    machine = WaveletMachine(wafer, rows, cols, 2 * words)
    assert Lines(machine=machine, gap_cycles=16).plane(schedule, words, target=words) <= schedule.colours
    memory = small_numbers(machine)
    result = run(machine, memory)
    expected = memory.copy()
    source_slices, target_slices = (np.s_[r.row : r.row + r.rows, r.col : r.col + r.cols] for r in (source, target))
    expected[target_slices][:, :, words:] = memory[source_slices][:, :, :words]
    np.testing.assert_array_equal(result.memory, expected)
    links = np.zeros_like(result.link_words)
    for stream in schedule.streams:
        row, col, side = stream.links.T
        np.add.at(links, (side, row, col), words)
    np.testing.assert_array_equal(result.link_words, links)
    assert result.hops == words * source.rows * source.cols * (
        abs(target.row - source.row) + abs(target.col - source.col)
    )
