"""Cycles of one turn of one step of a Program, and of the moving steps of a group at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from wse.arrays import I64
from wse.backends.fabric.causes import NO_CYCLES, Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import LineTime
from wse.backends.fabric.line.pattern_times import LinePattern, pattern_times
from wse.backends.fabric.line.rounds import Rounds, rounds_of
from wse.backends.fabric.links.link_map import cached_most_words
from wse.backends.fabric.links.routes import LongestLine
from wse.backends.fabric.links.traffic import Traffic
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.isa.pe_costs import pe_costs
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import COLUMNS, HOST, ROWS, Slots
from wse.program.transfers.kinds import transfer_of
from wse.program.transfers.messages import LineMessages, RowShift, Translation
from wse.program.transfers.transfer import Transfer, WaferPair
from wse_mappings.schedule import LineSchedule


class StepCosts:
    """The cycles of single steps.

    A step outside of a group is a task of its own. An overlap group is started and awaited at the cost
    ``transfer_sync_cycles``.
    """

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile, traffic: Traffic) -> None:
        self.program, self.wafer, self.software = program, wafer, software
        self._traffic = traffic
        self._pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._line = LineCosts.of_software(wafer, software)
        self._times = pattern_times(self._line)
        self._rounds = cache(partial(_rounds, self._line))

    def moves(self, phase: Phase, step: int) -> bool:
        """Return whether a step sends words over links along the lines of a region."""
        if phase.steps.computes(step):
            return False
        transfer = transfer_of(self.program, phase, step, self.program.cache_slots(0))
        return _is_along_lines(transfer) and not transfer.in_memory

    def distinct_turns(self, phase: Phase, group: Sequence[int], turns: int) -> list[tuple[int, int]]:
        """Return pairs of an iteration and the number of iterations with the same cost."""
        patterns = [self.program.patterns[phase.steps.pattern[s]] for s in group if phase.steps.pattern[s] >= 0]
        if any(len(p.variants) > 1 and p.changes_with_round for p in patterns):
            return [(turn, 1) for turn in range(turns)]
        return [(0, 1), (1, turns - 1)] if turns > 1 else [(0, 1)]

    def overlap_time(self, phase: Phase, steps: Sequence[int], slots: Slots, turn: int) -> LineTime:
        """Return the whole cycles of the sending steps of an overlap group, which start at the same time."""
        transfers = [transfer_of(self.program, phase, step, slots, turn) for step in steps]
        return self._pattern_time(transfers, in_group=True)

    def time(self, phase: Phase, step: int, slots: Slots, turn: int, chosen: frozenset[int] | None = None) -> LineTime:
        """Return the whole cycles of one iteration of a step; ``chosen``: wafers with chosen experts."""
        time = self._dispatched_time(phase, step, slots, turn, chosen)
        if not phase.steps.joined[step] or not time.cycles.total:
            return time
        return replace(time, cycles=time.cycles.plus(launch=-float(self.software.task_dispatch_cycles)))

    def _dispatched_time(
        self, phase: Phase, step: int, slots: Slots, turn: int, chosen: frozenset[int] | None
    ) -> LineTime:
        """Return the whole cycles of a step for which a task is dispatched."""
        in_group = bool(phase.steps.overlap[step] >= 0) and not self._is_dispatched(phase, step)
        if phase.steps.computes(step):
            kernel = KERNELS[phase.steps.code[step]]
            launch = NO_CYCLES if in_group else self._task()
            operands = phase.steps.operands(step, slots, turn)
            cycles = kernel.cycles_of(operands, self._pe, over_heads=bool(phase.steps.over_heads[step]))
            return LineTime(launch.plus(compute=cycles).whole())
        transfer = transfer_of(self.program, phase, step, slots, turn, chosen)
        if _is_along_lines(transfer):
            return self._line_time(transfer, in_group=in_group, in_loop=bool(phase.steps.loop[step] >= 0))
        return LineTime(self._cycles(transfer).whole())

    def _is_dispatched(self, phase: Phase, step: int) -> bool:
        """Return whether a task is dispatched for a step of a group: a transfer of its chain, or a kernel after one."""
        steps = phase.steps
        if steps.in_chain[step] or not steps.computes(step):
            return bool(steps.in_chain[step])
        return bool(step > 0 and steps.in_chain[step - 1] and steps.overlap[step - 1] == steps.overlap[step])

    def _cycles(self, transfer: Transfer) -> Cycles:
        """Return the cycles of a transfer that does not run along lines."""
        if not transfer.is_awaited:
            return NO_CYCLES
        if transfer.in_memory:
            return self._task().plus(compute=self._pe.vector(transfer.elements, self._pe.act))
        if isinstance(transfer.messages, RowShift):
            return self._shift(transfer)
        return self._stream(transfer)

    @property
    def on_whole_wafers(self) -> bool:
        """True if no PE is dead, so that the cost of a pattern does not depend on the position of its lines."""
        return self._traffic.routes.whole

    @property
    def sync(self) -> int:
        """Return the cycles of starting and awaiting a group of transfers, at least the time of a word from a
        neighbour.
        """
        return max(self.software.transfer_sync_cycles, self._ramps + self._line.hop)

    @property
    def _issue(self) -> int:
        return self.software.vector_issue_cycles

    def _task(self) -> Cycles:
        """Activating the task of a step."""
        return Cycles().plus(launch=self.software.task_dispatch_cycles)

    def _line_time(self, transfer: Transfer, *, in_group: bool, in_loop: bool) -> LineTime:
        """Return the whole cycles of a pattern along lines of a region."""
        pattern, first = transfer.site.schedule, transfer.site.round == 0
        if not len(pattern.messages):
            return LineTime(NO_CYCLES)  # a line of one PE
        add_cycles = self._pe.vector(transfer.elements, self._pe.acc)
        if transfer.in_memory:
            return LineTime(self._task().plus(compute=add_cycles).whole())
        time = self._pattern_time([transfer], in_group=in_group)
        if not pattern.overlaps or not in_loop or (first and not pattern.store_and_forward):
            return time
        line = self._traffic.routes.line(transfer.site.stage, transfer.site.axis)
        rounds = self._rounds(pattern, transfer.words, add_cycles, line)
        return replace(time, cycles=self._launch().followed_by(rounds.first if first else rounds.period).whole())

    def _pattern_time(self, transfers: Sequence[Transfer], *, in_group: bool) -> LineTime:
        """Return the whole cycles of patterns that start at the same time."""
        time = self._times.time([self._slowest(transfer) for transfer in transfers])
        if not in_group:
            return replace(time, cycles=self._launch().followed_by(time.cycles).whole())
        way = {"relays": -float(self._ramps), "hops": -float(self._line.hop)}
        return replace(time, cycles=time.cycles.plus(**way).whole())

    def _slowest(self, transfer: Transfer) -> LinePattern:
        """Return the line of a pattern that takes longest alone."""
        pattern, axis, words = transfer.site.schedule, transfer.site.axis, transfer.words
        line = self._traffic.routes.line(transfer.site.stage, axis)
        variants = pattern.critical(pattern.variants[transfer.site.round % len(pattern.variants)])
        lines = [LinePattern(pattern, variant, words, axis, line) for variant in variants]
        return max(lines, key=lambda one: self._times.time([one]).cycles) if len(lines) > 1 else lines[0]

    def _shift(self, transfer: Transfer) -> Cycles:
        """Return the cycles of a shift of rows: one hop for any number of rows."""
        line = self._traffic.routes.line(transfer.site.stage, COLUMNS)
        farthest, streams = (line.farthest, line.streams) if line else (1, 1)
        hops = farthest * self._line.hop + transfer.words * streams / self._line.words_per_cycle
        return self._launch().plus(relays=self._ramps, hops=hops)

    def _stream(self, transfer: Transfer) -> Cycles:
        """Return the cycles of words from one region to another, to another wafer, or to and from the host.

        1. Each message is issued, and enters and leaves a PE's router once a round.
        2. Its first word goes over the hops of the longest way; the words of the busiest link follow it.
        3. Links between wafers all work at once: the wafer that sends or receives most decides. Its messages wait for
           latencies of the link, and their bytes go at its rate; a PE adds up what it receives.
        4. The host's link has a rate and round trips of its own.
        """
        if transfer.leaves_wafer and not transfer.crossings:
            return self._launch()
        stretches, wafer = self._traffic.stretches(transfer), self.wafer
        cycles = self._launch()  # 1
        if stretches:
            distance = sum(map(self._traffic.routes.farthest, stretches)) * self._line.hop  # 2
            stream = self._busiest_words(transfer, stretches) / self._line.words_per_cycle
            cycles = cycles.plus(relays=transfer.rounds * self._ramps, hops=transfer.rounds * distance + stream)
        if not transfer.leaves_wafer:
            return cycles
        if any(HOST in pair for pair in transfer.crossings):
            seconds = transfer.crossing_bytes / wafer.host_bytes_per_s  # 4
            seconds += transfer.host_round_trips * wafer.host_round_trip_s
            return cycles.plus(host=seconds * wafer.clock_hz)
        peers = most_peers(transfer.crossings)  # 3
        seconds = transfer.link_latencies * wafer.wafer_link_latency_s
        seconds += peers * transfer.crossing_bytes / wafer.wafer_link_bytes_per_s
        add = (peers + 1) * self._pe.vector(transfer.added_elements, self._pe.acc) if transfer.added_elements else 0.0
        return cycles.plus(compute=add, crossing=seconds * wafer.clock_hz)

    def _busiest_words(self, transfer: Transfer, stretches: Sequence[I64]) -> int:
        """Return the words of the busiest link of streams that share links.

        At the edge of a wafer all of them do.
        """
        messages, stage = transfer.messages, transfer.site.stage
        if not transfer.leaves_wafer:
            assert isinstance(messages, Translation)
            shared = self._traffic.routes.contention(stage, messages.target_stage)
            return max(map(cached_most_words, stretches)) * shared
        words = Counter[tuple[int, bool]]()
        for edge in transfer.edges:
            words[edge.wafer, edge.leaving] += edge.words * edge.cols
        line = self._traffic.routes.line(stage, ROWS)
        return max(words.values()) * (line.streams if line else 1)

    def _launch(self) -> Cycles:
        """Return the cycles of activating the task of a step that sends, and of issuing its operation."""
        return self._task().plus(launch=self._issue)

    @property
    def _ramps(self) -> int:
        """Return the cycles of a word out of a PE and into another one."""
        return 2 * self._line.ramp + 1


def most_peers(crossings: Sequence[WaferPair]) -> int:
    """Return the maximum number of wafers that one wafer sends to or receives from; 0 without crossings."""
    return max((max(Counter(side).values()) for side in zip(*crossings, strict=True)), default=0)


def _is_along_lines(transfer: Transfer) -> bool:
    return isinstance(transfer.messages, LineMessages) and not transfer.leaves_wafer


def _rounds(costs: LineCosts, pattern: LineSchedule, words: int, add_cycles: float, line: LongestLine | None) -> Rounds:
    """Return the rounds of a pattern whose rounds overlap, on one line.

    A PE adds a received message in ``add_cycles``.
    """
    carried, places = (words * line.streams, line.places) if line else (words, None)
    return rounds_of(pattern, carried, add_cycles, costs, places)
