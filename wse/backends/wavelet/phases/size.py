"""Checks that the wavelet reference supports a Program, and that its regions are small enough."""

from __future__ import annotations

import numpy as np

from wse.backends.wavelet.machine import WaveletMachine
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.messages import Translation
from wse.program.transfers.transfer_types import transfer_of, transfer_steps
from wse_mappings.mesh.placement import Rect


def check_size(program: Program, wafer: WaferSpec) -> None:
    """Raise an error if the wavelet reference cannot simulate a Program.

    Every region must be small enough, and so must every rectangle that contains two regions that
    exchange words.

    Raises:
        BadMesh: A rectangle is too large; the message states its size and the limit.
        BadInput: The words of a phase depend on the selected experts, or a region spans wafers.
    """
    for phase in program.phases:
        check_fixed(phase)
    for stage in program.stages:
        WaveletMachine(wafer, stage.rect.rows, stage.rect.cols, 1)
    for phase in program.phases:
        for step in np.flatnonzero(phase.steps.kind == StepKind.TRANSFER).tolist():
            transfer = transfer_of(program, phase, step, program.cache_slots(0))
            if transfer.leaves_wafer or not isinstance(transfer.messages, Translation):
                continue
            box = bounding_rect(transfer.site.placed_stage.rect, program.stages[transfer.messages.target_stage].rect)
            WaveletMachine(wafer, box.rows, box.cols, 1)


def check_fixed(phase: Phase) -> None:
    """Raise an error if the wavelet reference does not support the messages of a phase.

    Raises:
        BadInput: The words of the phase depend on the selected experts, or a region spans wafers.
    """
    if (transfer_steps(phase.steps, lambda kind: kind.leaves_wafer) & (phase.steps.pattern >= 0)).any():
        message = (
            "the wavelet reference does not support a region that spans wafers: "
            "use --mapping region or pipeline, or --wafers 1"
        )
        raise BadInput(message)
    if phase.steps.depends_on_experts.any():
        message = (
            "the wavelet reference does not support experts on columns of their own, whose words depend on the "
            "choice of experts: use --experts distributed"
        )
        raise BadInput(message)


def bounding_rect(first: Rect, second: Rect) -> Rect:
    """Return the smallest rectangle that contains both rectangles."""
    row, col = min(first.row, second.row), min(first.col, second.col)
    bottom = max(first.row + first.rows, second.row + second.rows)
    right = max(first.col + first.cols, second.col + second.cols)
    return Rect(row, col, bottom - row, right - col)
