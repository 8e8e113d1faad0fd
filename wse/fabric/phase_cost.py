"""Cycles and traffic of one phase of a Program: the fabric model's answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from wse.fabric.alike import alike
from wse.fabric.causes import CAUSES, NO_CYCLES, Cycles
from wse.fabric.line_costs import LineCosts
from wse.fabric.line_steps import LineSteps
from wse.fabric.link_map import WORDS, link_map, most_words
from wse.fabric.traffic import DIRECTIONS, Traffic
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.instructions import FIRST_OPERAND, KERNELS, OPERANDS
from wse.kernel_cost import kernel_cycles, pe_costs
from wse.program import HOST, Field, HostStream, Kind, Phase, Program
from wse_mappings.cache_balance import CacheBalance

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PhaseCost:
    """One run of a phase.

    Attributes:
        start: float64 ``[steps]``: cycle at which a step first starts, counted from the phase's start.
        by_cause: float64 ``[steps, causes]``: cycles that a step adds to the phase, over all turns of its loop. A
            step that runs beside a longer one adds none.
        words: int64 ``[steps]``: words that a step's messages carry, over all turns.
        hops: int64 ``[steps]``: the same times the links that each word crosses.
        bytes: int64 ``[steps]``: payload of crossings.
        contention: float64 ``[steps]``: those of a step's cycles in which words waited for words of other messages on
            one link or one ramp, over all turns.
        streams: int64 ``[steps]``: the most messages on one link or one ramp in one window; 1 where none waited.
        rectangles: int64 ``[n, 6]``: the links that carry words, as ``link_map`` takes them; a plane is a wafer times
            four and a direction.
        mesh: Wafers, and rows and columns of each.
    """

    start: F64
    by_cause: F64
    words: I64
    hops: I64
    bytes: I64
    contention: F64
    streams: I64
    rectangles: I64
    mesh: tuple[int, int, int]

    @cached_property
    def links(self) -> I64:
        """int64 ``[wafers, 4, mesh rows, mesh cols]``: words by link, added up when first asked for."""
        wafers, rows, cols = self.mesh
        return link_map(self.rectangles, wafers * DIRECTIONS, rows, cols).reshape(wafers, DIRECTIONS, rows, cols)

    @property
    def cycles(self) -> float:
        """Cycles of the phase."""
        return float(self.by_cause.sum())

    def cause(self, name: str) -> float:
        """Cycles of one cause."""
        return float(self.by_cause[:, CAUSES.index(name)].sum())


class Fabric:
    """The fabric model of one Program on one wafer type with one software profile. Keeps what it computed."""

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile) -> None:
        self.program, self.wafer, self.software = program, wafer, software
        self._pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._line = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
        self._traffic = Traffic(program)
        self._lines = LineSteps(program, self._traffic, self._line)
        self._alike: dict[int, I64] = {}
        self._without_shift: dict[tuple[int, bool, int], PhaseCost] = {}

    def prefill_cost(self, index: int) -> PhaseCost:
        """Cost of prefill chunk ``index``."""
        phase = self.program.prefill[index]
        rows = self.program.stages[0].rect.rows
        return self._cost(index, CacheBalance.slots_after(phase.cached + phase.tokens, rows), 0)

    def decode_cost(self, length: int) -> PhaseCost:
        """Cost of one token that joins ``length`` tokens in the cache."""
        rows = self.program.stages[0].rect.rows
        index = len(self.program.phases) - 1
        passing = CacheBalance.passing_rows(length, rows)
        return self._cost(index, CacheBalance.slots_after(length + 1, rows), passing)

    def _cost(self, index: int, slots: int, passing: int) -> PhaseCost:
        phase = self.program.phases[index]
        key = (id(phase.fixed), phase.cached == 0, slots)  # chunks with the same steps share their arrays
        if key not in self._without_shift:
            self._without_shift[key] = self._evaluate(phase, slots)
        return self._with_shift(self._without_shift[key], phase, slots, passing)

    def _with_shift(self, cost: PhaseCost, phase: Phase, slots: int, passing: int) -> PhaseCost:
        """Add the traffic of cache shifts, which depends on how many rows pass an entry."""
        steps = np.flatnonzero(phase.kind == Kind.CACHE_SHIFT)
        if passing == 0 or len(steps) == 0:
            return cost
        words, hops = cost.words.copy(), cost.hops.copy()
        rectangles = [cost.rectangles]
        for step in steps.tolist():
            moved = self._traffic.shifted(phase, step, slots, passing)
            words[step], hops[step] = moved.words, moved.hops
            rectangles.append(moved.rectangles)
        return replace(cost, words=words, hops=hops, rectangles=np.concatenate(rectangles))

    def _evaluate(self, phase: Phase, slots: int) -> PhaseCost:
        count = len(phase)
        if id(phase.fixed) not in self._alike:
            self._alike[id(phase.fixed)] = alike(phase)
        like = self._alike[id(phase.fixed)]
        start, by_cause = np.zeros(count), np.zeros((count, len(CAUSES)))
        contention, streams = np.zeros(count), np.ones(count, np.int64)
        step_cycles = cache(lambda step, turn: self._exact_cycles(phase, step, slots, turn).whole())
        launch = CAUSES.index("launch")
        now = 0.0
        step = 0
        while step < count:
            end = step + 1
            if phase.loop[step] >= 0:
                end = int(phase.loops[phase.loop[step], 1])
            turns = phase.turns(step)
            begin = now
            for group in _groups(phase, step, end):
                start[group] = begin  # in the first turn
                for turn, repeat in self._distinct_turns(phase, group, turns):
                    times = [step_cycles(int(like[s]), turn) for s in group]
                    longest = max(range(len(group)), key=lambda i: times[i])
                    moving = [i for i, s in enumerate(group) if self._lines.moves(phase, s)]
                    if moving:
                        together = self._lines.time(phase, [int(like[group[i]]) for i in moving], slots, turn)
                        at_once = self._issue().then(together.cycles).whole()
                        if at_once > times[longest]:
                            longest = max(moving, key=lambda i: times[i])
                            times[longest] = at_once
                        if longest in moving:
                            contention[group[longest]] += together.contention_cycles * repeat
                            streams[group[longest]] = max(streams[group[longest]], together.streams)
                    by_cause[group[longest]] += times[longest].times(repeat)[1:]
                    begin += times[longest].total if turn == 0 else 0.0
                    others = (len(group) - 1) * self.software.task_dispatch_cycles * repeat
                    by_cause[group[longest], launch] += others
            by_cause[step:end, launch] += phase.repaints[step:end] * self.software.route_rewrite_cycles
            now += float(by_cause[step:end].sum())
            step = end
        words, hops, payload, rectangles = self._moved(phase, slots, like)
        program = self.program
        return PhaseCost(
            start=start,
            by_cause=by_cause,
            words=words,
            hops=hops,
            bytes=payload,
            contention=contention,
            streams=streams,
            rectangles=rectangles,
            mesh=(program.wafers, program.wafer_rows, program.wafer_cols),
        )

    def _moved(self, phase: Phase, slots: int, like: I64) -> tuple[I64, I64, I64, I64]:
        """Words, wavelet-hops and crossing bytes of every step, and the rectangles of them all."""
        kinds, which, often = np.unique(like, return_inverse=True, return_counts=True)
        moved = [self._traffic.moved(phase, step, slots) for step in kinds.tolist()]
        for each, times in zip(moved, often, strict=True):
            each.rectangles[:, WORDS] *= times
        words, hops, payload = np.array([each[:3] for each in moved], np.int64)[which].T
        return words, hops, payload, np.concatenate([each.rectangles for each in moved])

    def _distinct_turns(self, phase: Phase, group: list[int], turns: int) -> list[tuple[int, int]]:
        """(turn, how many turns cost the same): all alike after the first, unless a pattern changes with the round."""
        patterns = [self.program.patterns[phase.code[s]] for s in group if phase.kind[s] == Kind.LINE]
        if any(len(p.variants) > 1 and p.changes_with_round for p in patterns):
            return [(turn, 1) for turn in range(turns)]
        return [(0, 1), (1, turns - 1)] if turns > 1 else [(0, 1)]

    def _step_cycles(self, phase: Phase, step: int, slots: int, turn: int) -> Cycles:
        """Whole cycles of one turn of a step."""
        return self._exact_cycles(phase, step, slots, turn).whole()

    def _issue(self) -> Cycles:
        """Starting a step that moves words."""
        return Cycles().plus(launch=self.software.task_dispatch_cycles + self.software.vector_issue_cycles)

    def _exact_cycles(self, phase: Phase, step: int, slots: int, turn: int) -> Cycles:
        kind = phase.kind[step]
        launch = Cycles().plus(launch=self.software.task_dispatch_cycles)
        if kind == Kind.COMPUTE:
            kernel = KERNELS[phase.code[step]]
            a = phase.operands(step, slots, turn)
            named = {name: int(a[FIRST_OPERAND + i]) for i, (name, _) in enumerate(OPERANDS[kernel])}
            return launch.plus(compute=kernel_cycles(kernel, named, self._pe))
        words, issue = self._traffic.words(phase, step, slots, turn), self._issue()
        if kind == Kind.LINE:
            pattern = self.program.patterns[phase.code[step]]
            if not len(pattern.messages):
                return NO_CYCLES  # a line of one PE
            if not pattern.travels:
                elements = int(phase.operands(step, slots, turn)[Field.ELEMENTS])
                return launch.plus(compute=self._pe.vector(elements, self._pe.acc))
            return issue.then(self._lines.time(phase, [step], slots, turn).cycles)
        stream = words / self._line.words_per_cycle
        if kind == Kind.CACHE_SHIFT:
            return issue.plus(relays=2 * self._line.ramp + 1, hops=self._line.hop + stream)
        return self._stream_cycles(phase, step, issue, stream, words)

    def _stream_cycles(self, phase: Phase, step: int, issue: Cycles, stream: float, words: int) -> Cycles:
        """Cycles of a hand-over or a crossing."""
        a = phase.fixed[step]
        ends = 2 * self._line.ramp + 1
        wafer = self.wafer
        if phase.kind[step] == Kind.HAND_OVER:
            source = self.program.stages[phase.stage[step]].rect
            target = self.program.stages[a[Field.TARGET_STAGE]].rect
            cols = (int(a[Field.SOURCE_COL]), int(a[Field.TARGET_COL]))
            most = most_words(self._traffic.hand_over(phase, step, words))
            distance = abs(target.row - source.row) + abs(target.col + cols[1] - source.col - cols[0])
            return issue.plus(relays=ends, hops=distance * self._line.hop + most / self._line.words_per_cycle)
        width = int(a[Field.COLS])
        edge = max(0, width - 1) * self._line.hop  # the farthest column's way to the edge of its region
        if HOST not in (a[Field.FROM_WAFER], a[Field.TO_WAFER]):
            seconds = wafer.wafer_link_latency_s + a[Field.BYTES] / wafer.wafer_link_bytes_per_s
            hops = stream * width + 2 * edge
            return issue.plus(relays=ends, hops=hops, crossing=seconds * wafer.clock_hz)
        seconds = float(a[Field.BYTES]) / wafer.host_bytes_per_s
        if a[Field.WHAT] == HostStream.LOGITS_OUT:
            return issue.plus(relays=ends, hops=stream * width + edge, host=seconds * wafer.clock_hz)
        if a[Field.WHAT] == HostStream.TOKEN_OUT:
            return NO_CYCLES  # leaves while the next token is under way
        if a[Field.WHAT] == HostStream.TOKENS_IN and phase.cached == 0:
            seconds += wafer.host_round_trip_s / 2  # later chunks' ids arrive while earlier ones are worked on
        if a[Field.WHAT] == HostStream.DRAWN_IN:
            seconds += wafer.host_round_trip_s
        return issue.plus(host=seconds * wafer.clock_hz)


def _groups(phase: Phase, first: int, end: int) -> list[list[int]]:
    """Steps that run together, in order."""
    groups: list[list[int]] = []
    for step in range(first, end):
        if groups and phase.together[step] >= 0 and phase.together[step] == phase.together[groups[-1][0]]:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups
