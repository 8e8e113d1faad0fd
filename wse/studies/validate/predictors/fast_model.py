"""Fabric model of a line of PEs, with the machine and software of a measurement."""

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
    """Return the costs of moving words along a line of PEs on a measurement's platform.

    Args:
        m: The measurement. Its platform, simulator or silicon, determines the words per cycle.
        wafer: The wafer generation.
        software: Costs of relays and of gaps between operations.
    """
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return replace(costs, words_per_cycle=words_per_cycle(m, wafer))


def sequence_cycles(costs: LineCosts, words: int, *patterns: LineSchedule) -> float:
    """Return how many cycles several communication patterns take in sequence.

    There is a gap between consecutive patterns.

    Args:
        costs: Costs of moving words along a line of PEs.
        words: Number of 32-bit words on each PE.
        patterns: The patterns, in order. All lines of a pattern run concurrently.
    """
    return (len(patterns) - 1) * costs.gap + sum(_cycles(costs, words, pattern) for pattern in patterns)


def _cycles(costs: LineCosts, words: int, pattern: LineSchedule) -> float:
    """Return the cycles of a pattern on one line of PEs."""
    if pattern.part is not None:
        return part_time(pattern, 0, words, costs).total
    return line_cycles(pattern.messages, words, costs, pattern.message_colours).total
