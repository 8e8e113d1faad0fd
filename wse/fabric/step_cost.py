"""Cycles of one turn of one step of a Program, and of the moving steps of a group at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wse.fabric.causes import NO_CYCLES, Cycles
from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.line_steps import LineSteps
from wse.fabric.line.line_time import LineTime
from wse.fabric.line.pieces import hops_between
from wse.fabric.links.link_map import I64, most_words_anywhere
from wse.fabric.links.loads import EAST
from wse.fabric.links.routes import DIRECTIONS
from wse.fabric.links.traffic import Traffic
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.isa.instructions import KERNELS
from wse.isa.pe_costs import pe_costs
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import COLUMNS, HOST, ROWS, Field, HostStream, Kind
from wse_mappings.mesh.placement import Rect
from wse_mappings.schedule import COMBINING


class StepCosts:
    """What steps cost alone. A step by itself is a task of its own; a group that runs together is started and awaited
    at one cost, ``transfer_sync_cycles``, which holds the way of a word from a neighbour too."""

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile, traffic: Traffic) -> None:
        self.program, self.wafer, self.software = program, wafer, software
        self._traffic = traffic
        self._pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._line = LineCosts.of(
            wafer, software.reduce_gap_cycles, software.relay_cycles, software.transfer_sync_cycles
        )
        self._lines = LineSteps(program, traffic, self._line)

    def moves(self, phase: Phase, step: int) -> bool:
        """Whether a step is a LINE step that sends words over links."""
        return self._lines.moves(phase, step)

    def distinct_turns(self, phase: Phase, group: Sequence[int], turns: int) -> list[tuple[int, int]]:
        """(turn, how many turns cost the same): all alike after the first, unless a pattern changes with the round."""
        patterns = [self.program.patterns[phase.steps.code[s]] for s in group if phase.steps.kind[s] == Kind.LINE]
        if any(len(p.variants) > 1 and p.changes_with_round for p in patterns):
            return [(turn, 1) for turn in range(turns)]
        return [(0, 1), (1, turns - 1)] if turns > 1 else [(0, 1)]

    def at_once(self, phase: Phase, steps: Sequence[int], slots: int, turn: int) -> LineTime:
        """Whole cycles of moving steps that start together, or of one."""
        time = self._lines.time(phase, steps, slots, turn)
        if phase.steps.overlap[steps[0]] < 0:
            return replace(time, cycles=self._task().plus(launch=self._issue).then(time.cycles).whole())
        way = {"relays": -float(2 * self._line.ramp + 1), "hops": -float(self._line.hop)}
        return replace(time, cycles=time.cycles.plus(**way).whole())

    def cycles(self, phase: Phase, step: int, slots: int, turn: int) -> Cycles:
        """Cycles of one turn of a step."""
        kind = phase.steps.kind[step]
        if kind == Kind.COMPUTE:
            kernel = KERNELS[phase.steps.code[step]]
            launch = self._task() if phase.steps.overlap[step] < 0 else NO_CYCLES
            return launch.plus(compute=kernel.cycles_of(phase.steps.operands(step, slots, turn).tolist(), self._pe))
        if kind == Kind.LINE:
            return self._line_step(phase, step, slots, turn)
        words, issue = self._traffic.words(phase, step, slots, turn), self._task().plus(launch=self._issue)
        stream = words / self._line.words_per_cycle
        if kind == Kind.CACHE_SHIFT:
            line = self._traffic.ways.line(int(phase.steps.stage[step]), COLUMNS)
            farthest, streams = (line.farthest, line.streams) if line else (1, 1)
            return issue.plus(relays=2 * self._line.ramp + 1, hops=farthest * self._line.hop + stream * streams)
        if kind == Kind.WAFERS:
            pairs = self.program.crossings(phase.steps, step)
            return self.between_wafers(phase, step, phase.steps.operands(step, slots, turn).tolist(), pairs)
        return self._stream_cycles(phase, step, issue, stream, words)

    @property
    def sync(self) -> int:
        """Cycles of starting and awaiting a group of transfers: no less than a word takes from a neighbour."""
        return max(self.software.transfer_sync_cycles, 2 * self._line.ramp + 1 + self._line.hop)

    @property
    def _issue(self) -> int:
        return self.software.vector_issue_cycles

    def _task(self) -> Cycles:
        """Activating the task of a step."""
        return Cycles().plus(launch=self.software.task_dispatch_cycles)

    def _line_step(self, phase: Phase, step: int, slots: int, turn: int) -> Cycles:
        pattern = self.program.patterns[phase.steps.code[step]]
        if not len(pattern.messages):
            return NO_CYCLES  # a line of one PE
        elements = int(phase.steps.operands(step, slots, turn)[Field.ELEMENTS])
        if not pattern.travels:
            return self._task().plus(compute=self._pe.vector(elements, self._pe.acc))
        if not pattern.overlaps or phase.steps.loop[step] < 0 or (turn == 0 and not pattern.stored):
            return self.at_once(phase, [step], slots, turn).cycles
        rounds = self._lines.rounds(phase, step, slots, turn, self._pe.vector(elements, self._pe.acc))
        return self._task().plus(launch=self._issue).then(rounds.first if turn == 0 else rounds.period)

    def between_wafers(self, phase: Phase, step: int, a: list[int], pairs: Sequence[tuple[int, int]]) -> Cycles:
        """Cycles of a WAFERS step with operands ``a`` whose messages go between those pairs of wafers.

        Their links all work at once: the cycles are those of the wafer that sends or gets most. A message goes to the
        edge, over the link, and on to its PE, which adds it to what came before.
        """
        issue = self._task().plus(launch=self._issue)
        if not pairs:
            return issue
        peers = max(max(Counter(side).values()) for side in zip(*pairs, strict=True))
        rounds, width = a[Field.ROUNDS], self.program.stages[phase.steps.stage[step]].rect.cols
        line = self._traffic.ways.line(int(phase.steps.stage[step]), ROWS)
        places, streams = (line.places, line.streams) if line else (None, 1)
        words = self._traffic.part_words(phase, step, a[Field.PART])
        seconds = a[Field.LATENCIES] * self.wafer.wafer_link_latency_s
        seconds += peers * a[Field.BYTES] / self.wafer.wafer_link_bytes_per_s
        way = hops_between(places, a[Field.SOURCE_COL], width - 1) + hops_between(places, 0, a[Field.TARGET_COL])
        hops = rounds * (way * self._line.hop + streams * peers * words / self._line.words_per_cycle)
        sums = np.isin(self.program.patterns[phase.steps.code[step]].messages[:, 2], COMBINING).any()
        add = (peers + 1) * self._pe.vector(a[Field.PART], self._pe.acc) if sums else 0.0
        relays = rounds * (2 * self._line.ramp + 1)
        return issue.plus(hops=hops, relays=relays, compute=add, crossing=seconds * self.wafer.clock_hz)

    def _stream_cycles(self, phase: Phase, step: int, issue: Cycles, stream: float, words: int) -> Cycles:
        """Cycles of a hand-over or a crossing."""
        a = phase.steps.fixed[step]
        ends = 2 * self._line.ramp + 1
        wafer, ways = self.wafer, self._traffic.ways
        if phase.steps.kind[step] == Kind.HAND_OVER:
            if self.program.shares_pes(int(phase.steps.stage[step]), int(a[Field.TARGET_STAGE])):
                return self._task().plus(compute=self._pe.vector(int(a[Field.ELEMENTS]), self._pe.act))
            moved = self._traffic.hand_over(phase, step, words)
            sharing = ways.sharing(int(phase.steps.stage[step]), int(a[Field.TARGET_STAGE]))
            distance, most = ways.farthest(moved), most_words_anywhere(moved) * sharing
            return issue.plus(relays=ends, hops=distance * self._line.hop + most / self._line.words_per_cycle)
        width = int(a[Field.COLS])
        rect, sender = self.program.stages[phase.steps.stage[step]].rect, int(a[Field.FROM_WAFER])
        if HOST not in (a[Field.FROM_WAFER], a[Field.TO_WAFER]):
            seconds = wafer.wafer_link_latency_s + a[Field.BYTES] / wafer.wafer_link_bytes_per_s
            target = self.program.stages[a[Field.TARGET_STAGE]].rect
            edges = self._to_edge(sender, rect, width) + self._to_edge(int(a[Field.TO_WAFER]), target, width)
            hops = stream * width + edges
            return issue.plus(relays=ends, hops=hops, crossing=seconds * wafer.clock_hz)
        seconds = float(a[Field.BYTES]) / wafer.host_bytes_per_s
        if a[Field.WHAT] == HostStream.LOGITS_OUT:
            return issue.plus(
                relays=ends, hops=stream * width + self._to_edge(sender, rect, width), host=seconds * wafer.clock_hz
            )
        if a[Field.WHAT] == HostStream.TOKEN_OUT:
            return NO_CYCLES  # leaves while the next token is under way
        if a[Field.WHAT] == HostStream.TOKENS_IN and phase.begins:
            seconds += wafer.host_round_trip_s / 2  # later chunks' ids arrive while earlier ones are worked on
        if a[Field.WHAT] == HostStream.DRAWN_IN:
            seconds += wafer.host_round_trip_s
        return issue.plus(host=seconds * wafer.clock_hz)

    def _to_edge(self, wafer: int, rect: Rect, width: int) -> int:
        """Cycles of the way of a region's farthest column to its edge on a wafer, where so many columns send."""
        way: I64 = np.array(
            [[wafer * DIRECTIONS + EAST, rect.row, rect.row + rect.rows, rect.col, rect.col + max(0, width - 1), 0]],
            np.int64,
        )
        return self._traffic.ways.farthest(way) * self._line.hop
