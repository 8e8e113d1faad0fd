"""Cycle-by-cycle simulation of a phase, step by step, on the PEs and links of the regions.

The state is the cycle from which each PE of each stage is free. A step, or an overlap group of
steps, changes the state as follows:

1. Routes of other patterns that must be replaced are rewritten. Then the step's task is dispatched,
   unless the step runs in the task of the step before. An overlap group is instead started and
   awaited at one cost.
2. Kernels, and patterns whose messages stay on their PEs, occupy the PEs of their rows for the
   cycles that they cost. The kernels of a group run sequentially, and so do the patterns in
   the group's chain. A task is dispatched for each pattern of the chain, unless it runs in the task
   of the kernel before it, and for each kernel after such a pattern. The lines of a pattern in the
   chain are assumed to be different from those of the rest of the group; conflicts of the two on
   the ramp of a PE are ignored.
3. Patterns on lines of the region are simulated as wavelets, all of the group together, each with
   its own colours. A cache shift in a group is one of them.
4. Other transfers are issued one by one. Cache shifts are simulated on their region, and words
   between regions on the smallest rectangle that contains both. Words to another wafer are
   simulated up to the edge of their region, and again starting at the edge of the other region; the
   link in between is omitted. Words to the host are simulated up to the edge of their region.
5. PEs are free when their last word has arrived or left. The cycle count of the group is the time
   by which it delays the cycle in which the last PE becomes free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wse.arrays import I64
from wse.backends.wavelet.phases.mesh_state import MeshState, OnMoves, relative_to_first
from wse.backends.wavelet.phases.region_transfers import RegionTransfers
from wse.backends.wavelet.phases.step_runs import StepRuns
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.isa.pe_costs import pe_costs
from wse.program.program import Program
from wse.program.steps import COLUMNS, Phase
from wse.program.transfers.messages import LineMessages, RowShift, Translation
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.patterns.streams import cache_shift


class PhaseWalk:
    """Cycle-by-cycle simulation of a phase, one step after another.

    The simulation records from which cycle each PE of each stage is free. ``step_cycles``, ``hops``
    and ``links`` contain the results of the steps simulated so far; `PhaseRun` has fields with the
    same names, shapes and meanings.
    """

    def __init__(
        self,
        program: Program,
        phase: Phase,
        lengths: Sequence[int],
        wafer: WaferSpec,
        software: SoftwareProfile,
        on_moves: OnMoves | None,
    ) -> None:
        self.program, self.phase, self.software = program, phase, software
        self.slots = program.cache_slots(max(lengths) + phase.tokens // len(lengths))
        self.lengths = lengths
        self.pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self.runs = StepRuns(wafer=wafer, software=software, pe=self.pe, log=on_moves is not None)
        self.issue = math.ceil(software.vector_issue_cycles)
        self.neighbour_cycles = 2 * wafer.ramp_cycles + 1 + wafer.hop_cycles  # from a PE to its neighbour
        self.sync = max(software.transfer_sync_cycles, self.neighbour_cycles)
        self.state = MeshState(program, on_moves)
        self.regions = RegionTransfers(program, self.runs, self.state, wafer.hop_cycles)
        self.free, self.links = self.state.free, self.state.links
        self.end = 0
        self.step_cycles, self.hops = np.zeros(len(phase.steps), np.int64), np.zeros(len(phase.steps), np.int64)

    def carry_out(self, steps: range, iteration: int) -> None:
        """Simulate a step, or all steps of an overlap group, in one iteration of their loop.

        The steps of an overlap group run at the same time.

        1. Add the cycles for configuring routers and for starting the step or the group.
        2. Run the kernels, the copies within PEs, and the patterns in the chain of the group. The
           chain is a sequence of kernels and patterns that wait for each other.
        3. Simulate all other patterns along rows or columns together, word by word.
        4. Simulate each transfer that leaves the region or is not a pattern.
        5. Record how many cycles later the phase ends, and the hops of all words.

        Args:
            steps: Indices of the step, or of all steps of the group.
            iteration: Index of the iteration.
        """
        phase, first, hops = self.phase, steps.start, int(self.links.sum())
        transfers = {step: self._transfer(step, iteration) for step in steps if not phase.steps.computes(step)}
        working = [step for step in steps if step not in transfers or _works(transfers[step])]
        stage = int(phase.steps.stage[first])
        # 1
        route_rewrites = int(phase.steps.route_rewrites[steps.start : steps.stop].sum()) if iteration == 0 else 0
        self.free[stage] += self.software.route_rewrite_cycles * route_rewrites
        if working and not phase.steps.runs_in_previous_task[first]:
            self.free[stage] += self.sync if phase.steps.overlap[first] >= 0 else self.software.task_dispatch_cycles
        begin, idle = self.free[stage].copy(), self.free[stage].copy()
        lines: list[tuple[LineMessages, Transfer]] = []
        for step in working:
            transfer = transfers.get(step)
            if transfer is None:
                if step > first and phase.steps.in_chain[step - 1]:
                    idle += self.software.task_dispatch_cycles
                self._compute(step, iteration, idle)  # 2
            elif phase.steps.in_chain[step]:
                self._run_in_chain(step, transfer, idle)  # 2
            elif len(steps) > 1 and isinstance(transfer.messages, RowShift):
                lines += self._shift_lines(transfer, iteration)
            elif not isinstance(transfer.messages, LineMessages):
                self._stream(step, transfer, iteration, begin)  # 4
            elif transfer.in_memory:
                self._copy(transfer, begin)  # 2
            else:
                lines.append((transfer.messages, transfer))
        if lines:
            self._lines(first, lines, begin)  # 3
        # 5
        end = self.state.last_free()
        self.step_cycles[first] += end - self.end
        self.hops[first] += int(self.links.sum()) - hops
        self.end = end

    def wait(self) -> None:
        """Make all PEs of all stages wait until the last PE is free."""
        for free in self.free:
            free[:] = self.end

    def overlaps(self, step: int) -> bool:
        """Return True if a step runs a pattern whose rounds (loop iterations) overlap in time."""
        pattern = int(self.phase.steps.pattern[step])
        return pattern >= 0 and self.program.patterns[pattern].overlaps

    def _transfer(self, step: int, iteration: int) -> Transfer:
        """Return the transfer that a step makes in one iteration of its loop."""
        return transfer_of(self.program, self.phase, step, self.slots, iteration)

    def _compute(self, step: int, iteration: int, idle: I64) -> None:
        """Simulate a kernel on the rows of PEs that its operands specify.

        Args:
            step: Index of the step.
            iteration: Iteration of its loop.
            idle: int64 ``[rows, cols]``: cycle from which each PE is free for the kernels of the
                group; updated.
        """
        operands = self.phase.steps.operands(step, self.slots, iteration)
        over_heads = bool(self.phase.steps.over_heads[step])
        cycles = KERNELS[self.phase.steps.code[step]].cycles_of(operands, self.pe, over_heads=over_heads)
        first_row, rows = operands[:2]  # see `FIRST_OPERAND`
        self.state.work(int(self.phase.steps.stage[step]), first_row, rows, cycles, idle)
        idle[first_row : first_row + rows] += math.ceil(cycles - 1e-9)

    def _run_in_chain(self, step: int, transfer: Transfer, idle: I64) -> None:
        """Simulate a pattern in the chain of an overlap group.

        The steps of a chain run sequentially, while the other steps of the group run. The
        pattern starts on each PE when the previous steps of the chain have ended there.

        Args:
            step: Index of the step.
            transfer: Transfer of the step.
            idle: int64 ``[rows, cols]``: cycle from which each PE is free for the chain; updated.
        """
        if not self.phase.steps.runs_in_previous_task[step]:
            idle += self.software.task_dispatch_cycles
        if transfer.in_memory:
            self._copy(transfer, idle)
            idle[:] = self.free[transfer.site.stage]
        else:
            assert isinstance(transfer.messages, LineMessages)
            start, base = relative_to_first(idle + self.issue)
            step_run = self.runs.lines([(transfer.messages, transfer)], start)
            self.state.record_run(step, transfer.site.stage, base, step_run)
            idle[:] = np.maximum(idle, base + step_run.ends)

    def _copy(self, transfer: Transfer, begin: I64) -> None:
        """Simulate a pattern that only copies words within the SRAM of each PE.

        Args:
            transfer: Transfer that consists of copies.
            begin: int64 ``[rows, cols]``: cycle at which each PE begins.
        """
        site = transfer.site
        self.state.work(site.stage, site.first_row, site.rows, self.pe.vector(transfer.elements, self.pe.acc), begin)

    def _lines(self, step: int, messages_and_transfers: Sequence[tuple[LineMessages, Transfer]], begin: I64) -> None:
        """Simulate patterns on lines that run at the same time.

        Args:
            step: First step of the overlap group to which the patterns belong.
            messages_and_transfers: Messages of each pattern, and the transfer whose words they
                carry.
            begin: int64 ``[rows, cols]``: cycle at which each PE begins.
        """
        overlap = self.phase.steps.overlap[step] >= 0
        # The cost of starting a group already contains the path of a word to a neighbour.
        start, base = relative_to_first(begin - self.neighbour_cycles if overlap else begin + self.issue)
        self.state.record_run(
            step, messages_and_transfers[0][1].site.stage, base, self.runs.lines(messages_and_transfers, start)
        )

    def _shift_lines(self, transfer: Transfer, iteration: int) -> list[tuple[LineMessages, Transfer]]:
        """Return the messages of a cache shift as a pattern along columns, and its transfer.

        In a cache shift, each of the last rows of a region sends a KV-cache entry to the row above.
        The list is empty if no row sends an entry, and otherwise has one item.
        """
        rect = transfer.site.placed_stage.rect
        passing = CacheBalance.passing_rows(self.lengths[iteration], rect.rows)
        if not passing:
            return []
        pattern = cache_shift(rect.rows, rect.cols, passing)
        shifted = LineMessages(schedule=pattern, axis=COLUMNS, round=0, first_row=0, rows=rect.rows, in_place=False)
        return [(shifted, transfer)]

    def _stream(self, step: int, transfer: Transfer, iteration: int, begin: I64) -> None:
        """Simulate a transfer that is not a pattern along lines.

        Such a transfer is a cache shift, or it sends words to another region, to another wafer, or
        to or from the host. Only the links of the mesh are simulated.

        Args:
            step: Index of the step.
            transfer: Transfer that the step executes.
            iteration: Iteration of the step's loop.
            begin: int64 ``[rows, cols]``: cycle at which each PE begins.
        """
        stage, issued = transfer.site.stage, begin + self.issue
        self.free[stage] += self.issue
        match transfer.messages:
            case RowShift():
                for shifted in self._shift_lines(transfer, iteration):
                    start, base = relative_to_first(issued)
                    self.state.record_run(step, stage, base, self.runs.lines([shifted], start))
            case Translation() as messages if transfer.leaves_wafer:
                self.regions.to_wafer(step, transfer, messages.target_stage, issued)
            case Translation() as messages:
                self.regions.to_stage(step, transfer, messages, issued)
            case _:
                for edge in transfer.edges:
                    self.regions.to_edge(step, stage, edge, issued)


def _works(transfer: Transfer) -> bool:
    """Return True if a transfer must be simulated: it has messages, and the phase waits for it."""
    messages = transfer.messages
    return transfer.is_awaited and not (isinstance(messages, LineMessages) and not len(messages.schedule.messages))
