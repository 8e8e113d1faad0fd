"""Times of PEs and words on links while a phase is simulated, and checks of its size."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wse.arrays import I32, I64
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.phases.step_runs import StepRun
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.program.steps import Phase, StepKind
from wse.program.transfers.messages import Translation
from wse.program.transfers.transfer_types import transfer_of, transfer_steps
from wse_mappings.mesh.placement import Rect


def check_size(program: Program, wafer: WaferSpec) -> None:
    """Raise an error if the wavelet reference cannot simulate a Program.

    The wavelet reference is the cycle-by-cycle simulator. It simulates a region (a rectangle of
    PEs), or the smallest rectangle around two regions that exchange words. Each such rectangle must
    be small enough.

    Raises:
        BadMesh: A rectangle is too large; the message contains its size and the limit.
        BadInput: The words of a phase depend on the selected experts, or a region spans wafers.
    """
    for phase in program.phases:
        check_fixed(phase)
    for stage in program.stages:
        WaveletMachine(wafer, stage.rect.rows, stage.rect.cols, 1)
    empty = program.cache_slots(0)
    for phase in program.phases:
        for step in np.flatnonzero(phase.steps.kind == StepKind.TRANSFER).tolist():
            transfer = transfer_of(program, phase, step, empty)
            if transfer.leaves_wafer or not isinstance(transfer.messages, Translation):
                continue
            box = bounding_rect(transfer.site.placed_stage.rect, program.stages[transfer.messages.target_stage].rect)
            WaveletMachine(wafer, box.rows, box.cols, 1)


def check_fixed(phase: Phase) -> None:
    """Raise an error if the wavelet reference does not support the messages of a phase.

    The wavelet reference is the cycle-by-cycle simulator. It requires that the words and routes of
    all messages are known before the run, and that every region is on a single wafer.

    Raises:
        BadInput: The words of the phase depend on the selected experts, or a region spans wafers.
    """
    if (transfer_steps(phase.steps, lambda kind: kind.leaves_wafer) & (phase.steps.pattern >= 0)).any():
        raise BadInput(
            "the wavelet reference does not support a region that spans wafers: "
            "use --mapping region or pipeline, or --wafers 1"
        )
    if phase.steps.depends_on_experts.any():
        raise BadInput(
            "the wavelet reference does not support experts on columns of their own, whose words depend on the "
            "choice of experts: use --experts distributed"
        )


def bounding_rect(first: Rect, second: Rect) -> Rect:
    """Return the smallest rectangle that contains both rectangles."""
    row, col = min(first.row, second.row), min(first.col, second.col)
    bottom = max(first.row + first.rows, second.row + second.rows)
    right = max(first.col + first.cols, second.col + second.cols)
    return Rect(row, col, bottom - row, right - col)


OnMoves = Callable[[int, I64], None]
"""Function that receives the wavelets of a step: the step, and their moves as int64 ``[n, 7]``.

The columns are: cycle in which the wavelet leaves a router; wafer, row and column of the PE;
colour, counted from the first one of the step; Port that it leaves through; Port that it came by.
"""


class MeshState:
    """State of a simulated phase: when each PE is free, and how many words each link has carried.

    Attributes:
        free: For each stage, int64 ``[rows, cols]``: cycle from which each of its PEs is free.
        links: int64 ``[wafers, 4, mesh rows, mesh cols]``: words that left each PE to the north,
            east, south and west.
    """

    def __init__(self, program: Program, on_moves: OnMoves | None) -> None:
        self._program, self._on_moves = program, on_moves
        self.free = [np.zeros((stage.rect.rows, stage.rect.cols), np.int64) for stage in program.stages]
        self.links = np.zeros((program.wafers, 4, program.wafer_rows, program.wafer_cols), np.int64)

    def last_free(self) -> int:
        """Return the cycle from which all PEs of all stages are free."""
        return max(int(free.max()) for free in self.free)

    def work(self, stage: int, first_row: int, row_count: int, cycles: float, begin: I64) -> None:
        """Make the PEs of some rows of a stage busy for a number of cycles.

        Args:
            stage: Index of the stage.
            first_row, row_count: First busy row of the stage, and number of busy rows.
            cycles: Number of cycles.
            begin: int64 ``[rows, cols]``: cycle at which each PE of the stage begins the work.
        """
        rows, free = slice(first_row, first_row + row_count), self.free[stage]
        free[rows] = np.maximum(free[rows], begin[rows] + math.ceil(cycles - 1e-9))

    def record_run(self, step: int, stage: int, base: int, step_run: StepRun) -> None:
        """Record the result of simulating a step on a stage's region.

        The words on links are added to the totals, the moves of wavelets are reported, and each PE
        is marked as busy until the cycle in which it ended.

        Args:
            step: Index of the step.
            stage: Index of the stage.
            base: Cycle of the phase that is cycle 0 of the simulated step.
            step_run: Result of the simulation.
        """
        wafer, rect = self._program.stages[stage].wafer, self._program.stages[stage].rect
        self.links[(wafer, slice(None), *area_of(rect))] += step_run.link_words
        self.log(step, base, wafer, rect.row, rect.col, step_run.moves)
        self.occupy(stage, base, step_run.ends)

    def log(self, step: int, base: int, wafer: int, top: int, left: int, moves: I32) -> None:
        """Report the wavelet moves of a simulated step to the caller of the simulation.

        Args:
            step: Index of the step.
            base: Cycle of the phase that is cycle 0 of the moves.
            wafer: Index of the wafer, of which only a part was simulated.
            top, left: First row and column of the simulated part.
            moves: Moves, with rows and columns counted from ``top`` and ``left``.
        """
        if self._on_moves:
            cycle, row, col, colour, port, entry_port = moves.astype(np.int64).T
            columns = [cycle + base, np.full_like(cycle, wafer), row + top, col + left, colour, port, entry_port]
            self._on_moves(step, np.stack(columns, axis=1))

    def occupy(self, stage: int, base: int, ends: I32) -> None:
        """Mark the PEs of a stage as busy until the cycles at which they ended in a simulated step.

        Args:
            stage: Index of the stage.
            base: Cycle of the phase that is cycle 0 of the simulated step.
            ends: int32 ``[rows, cols]``: cycle, counted from ``base``, at which each PE ended; 0 if
                it was idle.
        """
        free = self.free[stage]
        free[:] = np.maximum(free, np.where(ends > 0, base + ends, 0))


def area_of(rect: Rect) -> tuple[slice, slice]:
    """Return a NumPy index that selects the PEs of a rectangle from an array ``[rows, cols]``."""
    return np.s_[rect.row : rect.row + rect.rows, rect.col : rect.col + rect.cols]


def relative_to_first(start: I64) -> tuple[I32, int]:
    """Convert start cycles of PEs to cycles after the earliest start.

    Returns:
        The start cycle of each PE minus the earliest start cycle, and the earliest start cycle.
    """
    base = int(start.min())
    return (start - base).astype(np.int32), base
