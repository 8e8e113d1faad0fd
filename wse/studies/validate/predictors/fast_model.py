"""The fabric model of one line of PEs, with the machine and the software of a measurement."""

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
    """Return the costs of words on a line of PEs, for the platform of a measurement.

    Args:
        m: The measurement. Its platform, simulator or silicon, sets the words per cycle.
        wafer: The wafer generation.
        software: Costs of gaps and relays.
    """
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return replace(costs, words_per_cycle=words_per_cycle(m, wafer))


def sequence_cycles(costs: LineCosts, words: int, *patterns: LineSchedule) -> float:
    """Return the cycles of several patterns that run one after another with gaps between them.

    Args:
        costs: Constants of the machine.
        words: 32-bit words on each PE.
        patterns: The patterns, whose lines all run at the same time.
    """
    return (len(patterns) - 1) * costs.gap + sum(_cycles(costs, words, pattern) for pattern in patterns)


def _cycles(costs: LineCosts, words: int, pattern: LineSchedule) -> float:
    """Return the cycles of one pattern."""
    if pattern.part is not None:
        return part_time(pattern, 0, words, costs).total
    return line_cycles(pattern.messages, words, costs, pattern.message_colours).total
