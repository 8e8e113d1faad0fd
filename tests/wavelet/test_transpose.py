"""Tests of patterns whose lines have corners, in the wavelet simulator: the transpose, and streams around a corner."""

from itertools import pairwise

import numpy as np
import pytest
from local_copies import memory_after_copies

from tests.wavelet.line_machines import WSE2, WSE3, small_numbers
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.links.loads import line_loads
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import STEP, WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import WaferSpec
from wse.program.steps import ROWS
from wse_mappings.patterns.transpose import transpose, transpose_paths
from wse_mappings.schedule import LineSchedule

GAP = 16


def run_transpose(wafer: WaferSpec, side: int, words: int) -> tuple[WaveletMachine, MachineRun]:
    """Run the transpose and check its values; return the machine and the run."""
    machine = WaveletMachine(wafer, side, side, 2 * words)
    lines = Lines(machine=machine, gap_cycles=GAP)
    schedule = transpose(side)
    for line, path in enumerate(transpose_paths(side)):
        assert lines.path(schedule, path, words, target=words, line=line) <= schedule.colours
    memory = small_numbers(machine, side)
    result = run(machine, memory_after_copies(lines, memory))
    np.testing.assert_array_equal(result.memory[..., words:], memory[..., :words].swapaxes(0, 1))
    np.testing.assert_array_equal(result.memory[..., :words], memory[..., :words])
    return machine, result


def link_loads(schedule: LineSchedule, paths: list[list[tuple[int, int]]], machine: WaveletMachine) -> np.ndarray:
    """Count the messages on every link: int64 ``[4, rows, cols]``, from the loads of the lines of a pattern.

    Args:
        schedule: The pattern.
        paths: For each line of the pattern, its PEs as (row, column).
        machine: The machine, for its size.
    """
    links = np.zeros((4, machine.rows, machine.cols), np.int64)
    up, down = line_loads(schedule, 1)
    side_of_step = {way: side for side, way in STEP.items()}
    for line, path in enumerate(paths):
        for i, (pe, next_pe) in enumerate(pairwise(path)):
            step = (next_pe[0] - pe[0], next_pe[1] - pe[1])
            links[(side_of_step[step], *pe)] += up[line, i]
            links[(side_of_step[-step[0], -step[1]], *next_pe)] += down[line, i + 1]
    return links


@pytest.mark.parametrize(("wafer", "side", "words"), [(WSE2, 1, 3), (WSE3, 2, 5), (WSE2, 5, 17), (WSE3, 8, 30)])
def test_transpose_uses_the_links_of_its_paths(wafer: WaferSpec, side: int, words: int) -> None:
    machine, result = run_transpose(wafer, side, words)
    expected = words * link_loads(transpose(side), transpose_paths(side), machine)
    np.testing.assert_array_equal(result.link_words, expected)


@pytest.mark.parametrize(("wafer", "side", "words"), [(WSE2, 1, 9), (WSE3, 2, 5), (WSE2, 8, 64), (WSE3, 13, 4)])
def test_fabric_model_is_exact_and_times_few_lines(wafer: WaferSpec, side: int, words: int) -> None:
    schedule = transpose(side)
    times = PatternTimes(LineCosts.of(wafer, GAP))

    def slowest(lines: list[int]) -> float:
        return max(times.time([LinePattern(schedule, line, words, ROWS)]).cycles.total for line in lines)

    lines = schedule.variants[0]
    assert len(schedule.critical(lines)) <= 5
    model_cycles = slowest(schedule.critical(lines))
    assert model_cycles == slowest(lines.tolist()) == run_transpose(wafer, side, words)[1].cycles
