"""Times of a Program's patterns on lines: one alone, or those of an overlap group on the same PEs."""

from __future__ import annotations

from collections.abc import Sequence

from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.line_time import LineTime
from wse.fabric.line.pattern_times import LinePattern, pattern_times
from wse.fabric.line.rounds import Rounds, rounds_of
from wse.fabric.links.routes import LongestLine
from wse.fabric.links.traffic import Traffic
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind
from wse.program.transfers.messages import LineMessages
from wse_mappings.schedule import LineSchedule


class LineSteps:
    """Finds the slowest lines of steps' patterns and times them; keeps what it computed."""

    def __init__(self, program: Program, traffic: Traffic, costs: LineCosts) -> None:
        self.program, self.traffic = program, traffic
        self.times = pattern_times(costs)
        self._rounds: dict[tuple[LineSchedule, int, float, LongestLine | None], Rounds] = {}

    def moves(self, phase: Phase, step: int) -> bool:
        """Whether a step sends words over links along the lines of a region."""
        if phase.steps.kind[step] == Kind.COMPUTE:
            return False
        transfer = self.traffic.transfer(phase, step, 0)
        on_mesh = not (transfer.leaves_wafer or transfer.in_memory)
        return on_mesh and isinstance(transfer.messages, LineMessages)

    def time(self, phase: Phase, steps: Sequence[int], slots: int, turn: int) -> LineTime:
        """What steps that move words take when they run together, in one turn of their loop."""
        return self.times.time([self._slowest(phase, step, slots, turn) for step in steps])

    def rounds(self, phase: Phase, step: int, slots: int, turn: int, add_cycles: float) -> Rounds:
        """What the rounds of a step take whose pattern's rounds overlap; adding a received message takes so long."""
        pattern = self.program.patterns[phase.steps.pattern[step]]
        words = self.traffic.transfer(phase, step, slots, turn).words
        line = self.traffic.routes.line(int(phase.steps.stage[step]), int(phase.steps.axis[step]))
        key = (pattern, words, add_cycles, line)
        if key not in self._rounds:
            carried, places = (words * line.streams, line.places) if line else (words, None)
            self._rounds[key] = rounds_of(pattern, carried, add_cycles, self.times.costs, places)
        return self._rounds[key]

    def _slowest(self, phase: Phase, step: int, slots: int, turn: int) -> LinePattern:
        """Of the lines of a step, one that takes longest when the step is alone."""
        pattern = self.program.patterns[phase.steps.pattern[step]]
        words, axis = self.traffic.transfer(phase, step, slots, turn).words, int(phase.steps.axis[step])
        variants = pattern.critical(pattern.variants[turn % len(pattern.variants)])
        line = self.traffic.routes.line(int(phase.steps.stage[step]), axis)
        lines = [LinePattern(pattern, variant, words, axis, line) for variant in variants]
        return (
            max(lines, key=lambda line_pattern: self.times.time([line_pattern]).cycles) if len(lines) > 1 else lines[0]
        )
