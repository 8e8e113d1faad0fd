"""Cycle count of one iteration of one step, and of transfers that start at the same time.

A step is one kernel or one transfer of a phase (a prefill chunk, a decode pass or a verification
pass), which all PEs of a region execute. Steps of an overlap group run at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from wse.backends.fabric.causes import NO_CYCLES
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import LineTime
from wse.backends.fabric.line.pattern_times import LinePattern, pattern_times
from wse.backends.fabric.line.rounds import Rounds, rounds_of
from wse.backends.fabric.links.traffic import Traffic
from wse.backends.fabric.transfer_cost import TransferCosts
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.isa.pe_costs import pe_costs
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of


class StepCosts:
    """Cost model that computes the cycles of single steps of a Program.

    An overlap group consists of steps that run at the same time. The cycle count of a step outside
    such a group includes the dispatch of a task. A group costs `sync` cycles once, for starting its
    transfers and waiting for all of them.
    """

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile, traffic: Traffic) -> None:
        self.program, self.wafer, self.software = program, wafer, software
        self._empty_slots = program.cache_slots(0)
        self._traffic = traffic
        self._pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._line = LineCosts.for_software(wafer, software)
        self._transfers = TransferCosts(wafer, software, traffic, self._line, self._pe)
        self._times = pattern_times(self._line)
        self._rounds = cache(partial(_rounds, self._line))

    def cost_as(self, other: StepCosts, phase: Phase, group: Sequence[int], *, at_place: bool) -> bool:
        """Return True if a group of concurrent steps costs the same in another cost model.

        Only the costs that affect these steps are compared. If they are equal, the group need not
        be timed again. A result of False does not mean that the costs differ.

        Args:
            other: Costs of steps of the same Program, for another wafer type or software.
            phase: Prefill chunk, decode pass or verification pass of the Program.
            group: Indices of the steps of the group.
            at_place: Whether the group's cycles may depend on the positions of PEs, or on links
                between wafers or to the host.
        """
        if self._task_costs != other._task_costs:
            return False
        computing = [phase.steps.computes(step) for step in group]
        if any(computing) and self._pe != other._pe:
            return False
        if phase.steps.overlap[group[0]] >= 0 and self.sync != other.sync:
            return False
        if all(computing):
            return True
        own_costs, other_costs = (
            (costs._pe.issue, costs._pe.act, costs._pe.acc, costs._line) for costs in (self, other)
        )
        return own_costs == other_costs and not (at_place and self.wafer != other.wafer)

    @property
    def _task_costs(self) -> tuple[int, int]:
        """Cycles to dispatch a task, and cycles to issue a vector operation.

        Nearly all steps need both.
        """
        return self.software.task_dispatch_cycles, self.software.vector_issue_cycles

    def moves(self, phase: Phase, step: int) -> bool:
        """Return True if a step runs a communication pattern along rows or columns of PEs.

        Patterns that only copy words within PEs do not count.
        """
        if phase.steps.computes(step):
            return False
        transfer = transfer_of(self.program, phase, step, self._empty_slots)
        return _is_along_lines(transfer) and not transfer.in_memory

    def distinct_iterations(self, phase: Phase, group: Sequence[int], iterations: int) -> list[tuple[int, int]]:
        """Return which iterations of a loop must be timed, as (iteration, repetitions) pairs.

        The first iteration may differ from all others, which are equal. One of the others is
        therefore timed and counted ``repetitions`` times. If a pattern in the loop has different
        messages in each iteration, all iterations are timed.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            group: Steps in the loop that run at the same time.
            iterations: Number of iterations.
        """
        patterns = [self.program.patterns[phase.steps.pattern[s]] for s in group if phase.steps.pattern[s] >= 0]
        if any(len(p.variants) > 1 and p.changes_with_round for p in patterns):
            return [(iteration, 1) for iteration in range(iterations)]
        return [(0, 1), (1, iterations - 1)] if iterations > 1 else [(0, 1)]

    def overlap_time(self, phase: Phase, steps: Sequence[int], slots: Slots, iteration: int) -> LineTime:
        """Return the time, in whole cycles, of transfers that start at the same time.

        The transfers may delay each other where they share links or ramps.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            steps: Indices of the steps, which are transfers along rows or columns.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            iteration: Iteration of the loop.
        """
        transfers = [transfer_of(self.program, phase, step, slots, iteration) for step in steps]
        return self._pattern_time(transfers, in_group=True)

    def time(
        self, phase: Phase, step: int, slots: Slots, iteration: int, chosen_wafers: frozenset[int] | None = None
    ) -> LineTime:
        """Return the time, in whole cycles, of one iteration of a step, undisturbed by other steps.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: Cached tokens on the fullest row of PEs, for each stage (a group of layers).
            iteration: Iteration of the step's loop.
            chosen_wafers: Wafers that store experts to which tokens are routed, if the step depends
                on them; None for all wafers.
        """
        time = self._dispatched_time(phase, step, slots, iteration, chosen_wafers)
        if not phase.steps.runs_in_previous_task[step] or not time.cycles.total:
            return time
        return replace(time, cycles=time.cycles.plus(launch=-float(self.software.task_dispatch_cycles)))

    def _dispatched_time(
        self, phase: Phase, step: int, slots: Slots, iteration: int, chosen_wafers: frozenset[int] | None
    ) -> LineTime:
        """Return the time of one iteration of a step, including the start of a task for the step.

        Some steps run in the task of the previous step and need no task of their own. For these
        steps, the caller (`time`) subtracts the cycles needed to start a task.
        """
        in_group = bool(phase.steps.overlap[step] >= 0) and not self._is_dispatched(phase, step)
        if phase.steps.computes(step):
            kernel = KERNELS[phase.steps.code[step]]
            launch = NO_CYCLES if in_group else self._transfers.task
            operands = phase.steps.operands(step, slots, iteration)
            cycles = kernel.cycles_of(operands, self._pe, over_heads=bool(phase.steps.over_heads[step]))
            return LineTime(launch.plus(compute=cycles).rounded_up())
        transfer = transfer_of(self.program, phase, step, slots, iteration, chosen_wafers)
        if _is_along_lines(transfer):
            return self._line_time(transfer, in_group=in_group, in_loop=bool(phase.steps.loop[step] >= 0))
        return LineTime(self._transfers.cycles(transfer).rounded_up())

    def _is_dispatched(self, phase: Phase, step: int) -> bool:
        """Return True if a step of a group of concurrent steps has a task of its own.

        Most steps have none, because all transfers of a group are started together. The exceptions
        are in the group's chain, whose steps wait for each other: a transfer, and a kernel directly
        after a transfer.
        """
        steps = phase.steps
        if steps.in_chain[step] or not steps.computes(step):
            return bool(steps.in_chain[step])
        return bool(step > 0 and steps.in_chain[step - 1] and steps.overlap[step - 1] == steps.overlap[step])

    @property
    def on_whole_wafers(self) -> bool:
        """True if no PE or link is dead.

        Neighbours are then one hop apart, so a pattern costs the same in all regions of equal
        size.
        """
        return self._traffic.routes.has_no_faults

    @property
    def sync(self) -> int:
        """Cycles to start the concurrent transfers of an overlap group and to wait until all have ended.

        The result is at least the time that a word needs from a PE to the neighbouring PE.
        """
        return max(self.software.transfer_sync_cycles, self._transfers.ramp_cycles + self._line.hop)

    def _line_time(self, transfer: Transfer, *, in_group: bool, in_loop: bool) -> LineTime:
        """Return the time, in whole cycles, of one round of a pattern along the lines of a region.

        If a pattern is repeated in a loop, its rounds (iterations) may overlap in time. The first
        round then costs more than each subsequent round.

        Args:
            transfer: The transfer, which sends one round of the pattern.
            in_group: Whether the transfer is part of an overlap group, whose cost includes the
                start of its transfers.
            in_loop: Whether the step of the transfer is in a loop.
        """
        pattern, first = transfer.site.schedule, transfer.site.round == 0
        if not len(pattern.messages):
            return LineTime(NO_CYCLES)  # a line of one PE
        add_cycles = self._pe.vector(transfer.elements, self._pe.acc)
        if transfer.in_memory:
            return LineTime(self._transfers.task.plus(compute=add_cycles).rounded_up())
        time = self._pattern_time([transfer], in_group=in_group)
        if not pattern.overlaps or not in_loop or (first and not pattern.store_and_forward):
            return time
        line = self._traffic.routes.line(transfer.site.stage, transfer.site.axis)
        rounds = self._rounds(LinePattern(pattern, 0, transfer.words, transfer.site.axis, line), add_cycles)
        return replace(
            time, cycles=self._transfers.launch.followed_by(rounds.first if first else rounds.period).rounded_up()
        )

    def _pattern_time(self, transfers: Sequence[Transfer], *, in_group: bool) -> LineTime:
        """Return the time, in whole cycles, of patterns that start at the same time.

        Args:
            transfers: The transfers of the patterns.
            in_group: Whether the transfers are part of an overlap group, whose cost includes their
                start.
        """
        time = self._times.time([self._slowest_line(transfer) for transfer in transfers])
        if not in_group:
            return replace(time, cycles=self._transfers.launch.followed_by(time.cycles).rounded_up())
        # The cost of starting the group already contains a hop between neighbours (`sync`).
        counted_hop = {"relays": -float(self._transfers.ramp_cycles), "hops": -float(self._line.hop)}
        return replace(time, cycles=time.cycles.plus(**counted_hop).rounded_up())

    def _slowest_line(self, transfer: Transfer) -> LinePattern:
        """Return the line of a pattern that takes the longest time, if no other pattern runs.

        All lines run at the same time, and lines that execute the same list of messages (a variant)
        need the same time. Only the variants that `LineSchedule.critical` returns are compared.
        """
        pattern, axis, words = transfer.site.schedule, transfer.site.axis, transfer.words
        line = self._traffic.routes.line(transfer.site.stage, axis)
        variants = pattern.critical(pattern.variants[transfer.site.round % len(pattern.variants)])
        lines = [LinePattern(pattern, variant, words, axis, line) for variant in variants]
        if len(lines) == 1:
            return lines[0]
        return max(lines, key=lambda line_pattern: self._times.time([line_pattern]).cycles)


def _is_along_lines(transfer: Transfer) -> bool:
    """Return True if a transfer sends words along lines (rows or columns) within one wafer."""
    return isinstance(transfer.messages, LineMessages) and not transfer.leaves_wafer


def _rounds(costs: LineCosts, pattern: LinePattern, add_cycles: float) -> Rounds:
    """Return the times of a repeated pattern on one line whose rounds (iterations) overlap.

    Args:
        costs: Cycle counts and queue sizes for words on a line of PEs.
        pattern: The communication pattern on its longest line.
        add_cycles: Cycles in which a PE adds a received message.
    """
    return rounds_of(pattern.schedule, pattern.carried_words, add_cycles, costs, pattern.places)
