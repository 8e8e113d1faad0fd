"""Limits on the size of a Program in the wavelet simulator."""

from __future__ import annotations

import numpy as np

from wse.backends.wavelet.machine import Machine
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind
from wse.program.transfers.kinds import transfer_of, transfer_steps
from wse.program.transfers.messages import Translation
from wse_mappings.mesh.placement import Rect


def check_size(program: Program, wafer: WaferSpec) -> None:
    """Refuse a Program with a region, or a rectangle between two regions, that is too large for the simulator.

    Raises:
        BadMesh: with the size and the limit.
        BadInput: its words depend on the choice of experts, or a region spans wafers.
    """
    for phase in program.phases:
        check_fixed(phase)
    for stage in program.stages:
        Machine(wafer, stage.rect.rows, stage.rect.cols, 1)
    for phase in program.phases:
        for step in np.flatnonzero(phase.steps.kind == Kind.TRANSFER).tolist():
            transfer = transfer_of(program, phase, step, program.cache_slots(0))
            if transfer.leaves_wafer or not isinstance(transfer.messages, Translation):
                continue
            box = bounding_rect(transfer.site.placed_stage.rect, program.stages[transfer.messages.target_stage].rect)
            Machine(wafer, box.rows, box.cols, 1)


def check_fixed(phase: Phase) -> None:
    """Refuse a phase whose words depend on the choice of experts.

    One whose regions span wafers is refused as well.

    Raises:
        BadInput: it is such a phase.
    """
    if (transfer_steps(phase.steps, lambda kind: kind.leaves_wafer) & (phase.steps.pattern >= 0)).any():
        message = (
            "a region that spans wafers is not carried out by wavelets: use --mapping region or pipeline, or --wafers 1"
        )
        raise BadInput(message)
    if phase.steps.routed.any():
        message = (
            "experts on columns of their own send words by what is chosen, which is not carried out by wavelets: "
            "use --experts spread"
        )
        raise BadInput(message)


def bounding_rect(first: Rect, second: Rect) -> Rect:
    """Return the smallest rectangle that contains both rectangles."""
    row, col = min(first.row, second.row), min(first.col, second.col)
    bottom = max(first.row + first.rows, second.row + second.rows)
    right = max(first.col + first.cols, second.col + second.cols)
    return Rect(row, col, bottom - row, right - col)
