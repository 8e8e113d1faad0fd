"""Test of the translation of a rectangle of words in the wavelet simulator: values, link words and hops."""

import numpy as np
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
from wse_mappings.plane import PlaneSchedule


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
