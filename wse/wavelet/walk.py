"""How far a phase of a Program has come, cycle by cycle: each step in turn on the PEs and links of its region."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.isa.instructions import KERNELS
from wse.isa.pe_costs import pe_costs
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import HOST, Field, HostStream, Kind
from wse.wavelet.machine import Port
from wse.wavelet.size import around
from wse.wavelet.step_runs import Ran, StepRuns
from wse.wavelet.tables import I32
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.mesh.placement import Rect

I64 = npt.NDArray[np.int64]
OnMoves = Callable[[int, I64], None]
"""Told of the wavelets of a step as it is carried out: the step, and int64 ``[n, 7]``: the cycle in which each leaves a
router, wafer, row and col of its PE, colour counted from the first of the step, and the Ports that it leaves through
and came by."""


class Walk:
    """The phase as far as it has come: when each PE of each stage is free."""

    def __init__(
        self,
        program: Program,
        phase: Phase,
        lengths: Sequence[int],
        wafer: WaferSpec,
        software: SoftwareProfile,
        *,
        workers: int,
        on_moves: OnMoves | None,
    ) -> None:
        self.program, self.phase, self.wafer, self.software = program, phase, wafer, software
        self.on_moves = on_moves
        rows = program.stages[0].rect.rows
        self.slots = CacheBalance.slots_after(max(lengths) + phase.tokens // len(lengths), rows)
        self.passing = [CacheBalance.passing_rows(length, rows) for length in lengths]
        self.pe = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        log = on_moves is not None
        self.runs = StepRuns(program=program, wafer=wafer, software=software, pe=self.pe, workers=workers, log=log)
        self.issue = math.ceil(software.vector_issue_cycles)
        self.way = 2 * wafer.ramp_cycles + 1 + wafer.hop_cycles  # of a word to a neighbour
        self.sync = max(software.transfer_sync_cycles, self.way)
        self.free = [np.zeros((stage.rect.rows, stage.rect.cols), np.int64) for stage in program.stages]
        self.end = 0
        self.step_cycles, self.hops = np.zeros(len(phase.steps), np.int64), np.zeros(len(phase.steps), np.int64)
        self.links = np.zeros((program.wafers, 4, program.wafer_rows, program.wafer_cols), np.int64)

    def together(self, steps: range, turn: int) -> None:
        """Carry out steps that run at the same time."""
        phase, first, hops = self.phase, steps.start, int(self.links.sum())
        working = [step for step in steps if self._works(step)]
        stage = int(phase.steps.stage[first])
        repaints = int(phase.steps.repaints[steps.start : steps.stop].sum()) if turn == 0 else 0
        self.free[stage] += self.software.route_rewrite_cycles * repaints
        if working:
            self.free[stage] += self.sync if phase.steps.overlap[first] >= 0 else self.software.task_dispatch_cycles
        begin = self.free[stage].copy()
        lines = []
        for step in working:
            if not self._moves(step):
                self._compute(step, turn, begin)
            elif phase.steps.kind[step] == Kind.LINE:
                lines.append(step)
            else:
                self._stream(step, turn, begin)
        if lines:
            self._lines(lines, turn, begin)
        end = max(int(free.max()) for free in self.free)
        self.step_cycles[first] += end - self.end
        self.hops[first] += int(self.links.sum()) - hops
        self.end = end

    def wait(self) -> None:
        """All PEs of all stages wait for the last."""
        for free in self.free:
            free[:] = self.end

    def overlaps(self, step: int) -> bool:
        """Whether rounds of a step's pattern overlap."""
        return bool(
            self.phase.steps.kind[step] == Kind.LINE and self.program.patterns[self.phase.steps.code[step]].overlaps
        )

    def _works(self, step: int) -> bool:
        """Whether a step does anything: a line of one PE does not, and the host takes a token while others are made."""
        if self.phase.steps.kind[step] == Kind.LINE:
            return len(self.program.patterns[self.phase.steps.code[step]].messages) > 0
        return not (self.phase.steps.kind[step] == Kind.CROSS and self._carried(step) == HostStream.TOKEN_OUT)

    def _moves(self, step: int) -> bool:
        """Whether a step that works sends words over links, rather than to memory alone."""
        if self.phase.steps.kind[step] == Kind.LINE:
            return bool(self.program.patterns[self.phase.steps.code[step]].travels)
        return bool(self.phase.steps.kind[step] != Kind.COMPUTE)

    def _carried(self, step: int) -> HostStream:
        return HostStream(int(self.phase.steps.fixed[step][Field.WHAT]))

    def _compute(self, step: int, turn: int, begin: I64) -> None:
        """A kernel, or the copy of a pattern that stays on its PEs, on some rows."""
        a = self.phase.steps.operands(step, self.slots, turn)
        if self.phase.steps.kind[step] == Kind.COMPUTE:
            cycles = KERNELS[self.phase.steps.code[step]].cycles_of(a.tolist(), self.pe)
        else:
            cycles = self.pe.vector(int(a[Field.ELEMENTS]), self.pe.acc)
        rows = slice(int(a[0]), int(a[0] + a[1]))
        free = self.free[self.phase.steps.stage[step]]
        free[rows] = np.maximum(free[rows], begin[rows] + math.ceil(cycles - 1e-9))

    def _lines(self, steps: list[int], turn: int, begin: I64) -> None:
        together = self.phase.steps.overlap[steps[0]] >= 0
        start, base = _relative(begin - self.way if together else begin + self.issue)
        ran = self.runs.lines(self.phase, steps, self.slots, turn, start)
        self._ended(steps[0], int(self.phase.steps.stage[steps[0]]), base, ran)

    def _stream(self, step: int, turn: int, begin: I64) -> None:
        """A cache shift, a hand-over or the part of a crossing that is on a mesh."""
        stage, issue = int(self.phase.steps.stage[step]), self.issue
        self.free[stage] += issue
        words = self.runs.words(self.phase, step, self.slots, turn)
        if self.phase.steps.kind[step] == Kind.CACHE_SHIFT:
            passing = self.passing[turn]
            if passing:
                start, base = _relative(begin + issue)
                self._ended(step, stage, base, self.runs.cache_shift(passing, words, start))
        elif self.phase.steps.kind[step] == Kind.HAND_OVER:
            self._hand_over(step, words, begin + issue)
        elif self._carried(step) == HostStream.LOGITS_OUT:
            self._logits_out(step, words, begin + issue)
        elif HOST not in (self.phase.steps.fixed[step][Field.FROM_WAFER], self.phase.steps.fixed[step][Field.TO_WAFER]):
            self._cross(step, words, begin + issue)

    def _hand_over(self, step: int, words: int, begin: I64) -> None:
        """Wavelets on the smallest rectangle that holds both regions."""
        a, stages = self.phase.steps.fixed[step], self.program.stages
        here, there = int(self.phase.steps.stage[step]), int(a[Field.TARGET_STAGE])
        source, target = stages[here].rect, stages[there].rect
        top, left, rows, cols = around(source, target)
        base = int(min(begin.min(), self.free[there].min()))
        start = np.zeros((rows, cols), np.int32)
        areas = [_area(Rect(r.row - top, r.col - left, r.rows, r.cols)) for r in (source, target)]
        for area, times in zip(areas, (begin, self.free[there]), strict=True):
            start[area] = times - base
        ends = [
            Rect(r.row - top, r.col - left + int(a[first]), r.rows, int(a[Field.COLS]))
            for r, first in ((source, Field.SOURCE_COL), (target, Field.TARGET_COL))
        ]
        ran = self.runs.translate(ends[0], ends[1], words, start)
        self.links[stages[here].wafer, :, top : top + rows, left : left + cols] += ran.link_words
        self._tell(step, base, stages[here].wafer, top, left, ran.moves)
        for stage, area in zip((here, there), areas, strict=True):
            self._free(stage, base, ran.ends[area])

    def _cross(self, step: int, words: int, begin: I64) -> None:
        """Rows of two regions as if they touched; the link between them, and its hop, belong to the crossing."""
        a, stages = self.phase.steps.fixed[step], self.program.stages
        here, there = int(self.phase.steps.stage[step]), int(a[Field.TARGET_STAGE])
        cut, width = stages[here].rect.cols, int(a[Field.COLS])
        both = np.concatenate([begin, self.free[there]], axis=1)
        start, base = _relative(both)
        source = Rect(0, int(a[Field.SOURCE_COL]), len(both), width)
        target = Rect(0, cut + int(a[Field.TARGET_COL]), len(both), width)
        ran = self.runs.translate(source, target, words, start)
        links, col = ran.link_words.copy(), ran.moves[:, 2]
        links[Port.EAST, :, cut - 1] = 0
        crossing = (col == cut - 1) & (ran.moves[:, 4] == Port.EAST)
        for stage, cols, hops, mine in (
            (here, slice(0, cut), 0, (col < cut) & ~crossing),
            (there, slice(cut, None), self.wafer.hop_cycles, col >= cut),
        ):
            moves = ran.moves[mine] - np.array([0, 0, cols.start, 0, 0, 0], np.int32)
            self._ended(step, stage, base - hops, Ran(ran.ends[:, cols], links[:, :, cols], moves))

    def _logits_out(self, step: int, words: int, begin: I64) -> None:
        """The root row's logits to the east edge of its region."""
        stage, cols = int(self.phase.steps.stage[step]), int(self.phase.steps.fixed[step][Field.COLS])
        row = self.program.root_row
        start, base = _relative(np.append(begin[row, :cols], begin[row, 0])[None, :])
        ran = self.runs.to_edge(words, start)
        rect = self.program.stages[stage].rect
        links = np.zeros((4, rect.rows, rect.cols), np.int64)
        links[Port.EAST, row, : cols - 1] = ran.link_words[Port.EAST, 0, : cols - 1]
        ends = np.zeros((rect.rows, rect.cols), np.int32)
        ends[row, :cols] = np.maximum(ran.ends[0, :cols], ran.ends[0, cols] - self.wafer.hop_cycles)
        inside = (ran.moves[:, 2] < cols - 1) & (ran.moves[:, 4] == Port.EAST)
        self._ended(step, stage, base, Ran(ends, links, ran.moves[inside] + np.array([0, row, 0, 0, 0, 0], np.int32)))

    def _ended(self, step: int, stage: int, base: int, ran: Ran) -> None:
        """A run on a region, whose cycle 0 was ``base``."""
        wafer, rect = self.program.stages[stage].wafer, self.program.stages[stage].rect
        self.links[(wafer, slice(None), *_area(rect))] += ran.link_words
        self._tell(step, base, wafer, rect.row, rect.col, ran.moves)
        self._free(stage, base, ran.ends)

    def _tell(self, step: int, base: int, wafer: int, top: int, left: int, moves: I32) -> None:
        if self.on_moves:
            cycle, row, col, colour, port, came = moves.astype(np.int64).T
            everywhere = np.full_like(cycle, wafer)
            self.on_moves(step, np.stack([cycle + base, everywhere, row + top, col + left, colour, port, came], axis=1))

    def _free(self, stage: int, base: int, ends: I32) -> None:
        free = self.free[stage]
        free[:] = np.maximum(free, np.where(ends > 0, base + ends, 0))


def _area(rect: Rect) -> tuple[slice, slice]:
    return np.s_[rect.row : rect.row + rect.rows, rect.col : rect.col + rect.cols]


def _relative(start: I64) -> tuple[I32, int]:
    """Starts counted from the first of them, and that one."""
    base = int(start.min())
    return (start - base).astype(np.int32), base
