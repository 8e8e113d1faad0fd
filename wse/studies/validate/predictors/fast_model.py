"""The fabric model of one line of PEs, set up as a row's machine and code were."""

from __future__ import annotations

from dataclasses import replace

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.backends.fabric.line.part_time import part_time
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import words_per_cycle
from wse_mappings.schedule import LineSchedule


def line_costs(m: Measurement, wafer: WaferSpec, software: SoftwareProfile) -> LineCosts:
    """Constants of the machine that a row was measured on, simulator or silicon, and of its software."""
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return replace(costs, words_per_cycle=words_per_cycle(m, wafer))


def sequence_cycles(costs: LineCosts, words: int, *patterns: LineSchedule) -> float:
    """Return the cycles of patterns one after another with a gap between, all lines of a pattern together."""
    return (len(patterns) - 1) * costs.gap + sum(_cycles(costs, words, pattern) for pattern in patterns)


def _cycles(costs: LineCosts, words: int, pattern: LineSchedule) -> float:
    if pattern.part is not None:
        return part_time(pattern, 0, words, costs).total
    return line_cycles(pattern.messages, words, costs, pattern.message_colours).total
