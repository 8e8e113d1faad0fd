"""Tests of patterns on rectangles in the wavelet simulator: values, link words, and cycles against closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wavelet.line_machines import WSE2, WSE3, small_numbers
from wse.arrays import F32, I64
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import WaferSpec
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.streams import translation
from wse_mappings.plane import EAST, SOUTH, STEP, PlaneSchedule, PlaneStream, straight

HALO_COLOURS = 6


def corner_multicast(rows: int, cols: int) -> PlaneSchedule:
    """Return the multicast from PE (0, 0): along the first row, then down every column.

    It uses one colour. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv
    2404.15888 (2D broadcast).
    """
    links = [straight(0, 0, EAST, cols - 1), *(straight(0, col, SOUTH, rows - 1) for col in range(cols))]
    receivers = tuple((row, col) for row in range(rows) for col in range(cols) if row or col)
    stream = PlaneStream(source=(0, 0), links=np.concatenate(links), receivers=receivers)
    streams = (stream,) if receivers else ()
    return PlaneSchedule(
        name="corner_multicast", rows=rows, cols=cols, streams=streams, stream_colours=(0,) * len(streams), colours=1
    )


def halo_colour(row: int, col: int) -> int:
    """Return the colour on which a PE sends its words in a halo exchange.

    A colour is a route that routers are configured for. The colours of a PE and of its neighbours
    differ.
    """
    return (col + row // 2 % 2) % 3 + 3 * (row % 2)


def halo_exchange(rows: int, cols: int) -> PlaneSchedule:
    """Return the halo exchange of a five-point stencil: every PE multicasts to its four neighbours.

    The six colours make those of a PE and of its neighbours differ: three by column in even rows
    and three others in odd rows, shifted by one in every second pair of rows. A PE stores the words
    of a neighbour in the slot of that neighbour's colour. Source: the stencil experiments of
    github.com/Jorineg/cerebras (one cell per PE, exchange by multicast on six colours).
    """
    streams, stream_colours = [], []
    for row in range(rows):
        for col in range(cols):
            sides = [(side, (row + row_step, col + col_step)) for side, (row_step, col_step) in enumerate(STEP)]
            neighbours = [(side, pe) for side, pe in sides if 0 <= pe[0] < rows and 0 <= pe[1] < cols]
            if neighbours:
                links = np.array([(row, col, side) for side, _ in neighbours], np.int32)
                receivers = tuple(pe for _, pe in neighbours)
                colour = halo_colour(row, col)
                streams.append(PlaneStream(source=(row, col), links=links, receivers=receivers, slot=colour))
                stream_colours.append(colour)
    return PlaneSchedule(
        name="halo_exchange",
        rows=rows,
        cols=cols,
        streams=tuple(streams),
        stream_colours=tuple(stream_colours),
        colours=HALO_COLOURS,
    )


def run_plane(schedule: PlaneSchedule, words: int, *, wafer: WaferSpec = WSE2) -> tuple[F32, MachineRun]:
    """Run a pattern that moves words from address 0 to address ``words``; return the initial memory and the run."""
    machine = WaveletMachine(wafer, schedule.rows, schedule.cols, 2 * words)
    used = Lines(machine=machine, gap_cycles=16).plane(schedule, words, target=words)
    assert used <= schedule.colours
    memory = small_numbers(machine)
    return memory, run(machine, memory)


def link_loads(schedule: PlaneSchedule) -> I64:
    """Count the streams on every link: int64 ``[4, rows, cols]``, the four outgoing links of each PE."""
    loads = np.zeros((4, schedule.rows, schedule.cols), np.int64)
    for stream in schedule.streams:
        row, col, side = stream.links.T
        np.add.at(loads, (side, row, col), 1)
    return loads


@given(rows=st.integers(1, 9), cols=st.integers(1, 9), words=st.integers(1, 40), wafer=st.sampled_from([WSE2, WSE3]))
@settings(max_examples=15, deadline=None)
def test_corner_multicast_reaches_every_pe(rows: int, cols: int, words: int, wafer: WaferSpec) -> None:
    schedule = corner_multicast(rows, cols)
    memory, result = run_plane(schedule, words, wafer=wafer)
    expected = np.broadcast_to(memory[0, 0, :words], (rows, cols, words)).copy()
    expected[0, 0] = memory[0, 0, words:]
    np.testing.assert_array_equal(result.memory[:, :, words:], expected)
    np.testing.assert_array_equal(result.link_words, words * link_loads(schedule))
    assert result.hops == words * (rows * cols - 1)


@pytest.mark.parametrize(("rows", "cols", "words"), [(1, 2, 7), (4, 4, 1), (5, 9, 7), (16, 16, 256)])
def test_corner_multicast_cycles_are_words_plus_distance_plus_ramps(rows: int, cols: int, words: int) -> None:
    """T = B + M + N - 2 + k, k = 2 T_R + 1 (Luczynski et al., HPDC 2024: 2D broadcast)."""
    _, result = run_plane(corner_multicast(rows, cols), words)
    stage = 2 * WSE2.ramp_cycles + 1
    assert result.cycles == words + rows + cols - 2 + stage


@pytest.mark.parametrize(("rows", "cols", "words"), [(3, 3, 9), (5, 5, 1), (12, 20, 2)])
def test_halo_exchange_cycles_are_those_of_words_over_one_ramp(rows: int, cols: int, words: int) -> None:
    """An inner PE receives the B words of four neighbours over its ramp: 4 B + 1 + k cycles, k = 2 T_R + 1.

    A step of the stencil with one cell per PE (B = 1) costs 16 cycles on WSE-2, including the arithmetic (simulator
    rows of github.com/Jorineg/cerebras, 5x5 to 50x50 PEs). The exchange alone must cost less.
    """
    machine = WaveletMachine(WSE2, rows, cols, 7 * words)
    Lines(machine=machine, gap_cycles=16).plane(halo_exchange(rows, cols), words, target=words)
    cycles = run(machine).cycles
    assert cycles == 4 * words + WSE2.hop_cycles + 2 * WSE2.ramp_cycles + 1
    assert cycles < 16 or words > 1


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
    memory, result = run_plane(schedule, words, wafer=wafer)
    expected = memory.copy()
    source_slices, target_slices = (np.s_[r.row : r.row + r.rows, r.col : r.col + r.cols] for r in (source, target))
    expected[target_slices][:, :, words:] = memory[source_slices][:, :, :words]
    np.testing.assert_array_equal(result.memory, expected)
    np.testing.assert_array_equal(result.link_words, words * link_loads(schedule))
    assert result.hops == words * source.rows * source.cols * (
        abs(target.row - source.row) + abs(target.col - source.col)
    )
