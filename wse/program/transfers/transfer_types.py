"""List of all transfer types, and functions that create the transfer of a step.

The ``code`` of a step of kind TRANSFER is the index of its type in TRANSFERS. Its operands are
first row, number of rows, and then, starting at FIRST_OPERAND, the fields of the type in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.program.isa.operands import FIRST_OPERAND
from wse.program.program import Program
from wse.program.steps import Phase, Slots, StepKind, Steps
from wse.program.transfers.host_streams import DraftIn, DrawnIn, LogitsOut, TokenOut, TokensIn
from wse.program.transfers.patterns import AlongLine, BetweenWafers, CacheShift
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer import Site, Transfer, WaferPair

TRANSFERS: Final[tuple[type[Transfer], ...]] = (
    AlongLine,
    CacheShift,
    StageTransfer,
    Crossing,
    BetweenWafers,
    TokensIn,
    TokenOut,
    LogitsOut,
    DraftIn,
    DrawnIn,
)


def operand_index(transfer_type: type[Transfer]) -> dict[str, int]:
    """Return the index of each operand in the operand list of a step, for one type of transfer.

    The keys are the names of the operands.
    """
    return _OPERANDS[transfer_type]


_OPERANDS: Final = {
    transfer_type: {
        field.name: i for i, field in enumerate(fields(transfer_type)[1:], FIRST_OPERAND)
    }  # the first field is the site
    for transfer_type in TRANSFERS
}

ADDRESSES: Final = tuple(
    frozenset(operand_index(transfer_type)[name] for name in transfer_type.addresses) for transfer_type in TRANSFERS
)
"""Indices of the operands that are addresses, for each transfer type."""


def transfer_steps(steps: Steps, condition: Callable[[type[Transfer]], bool]) -> npt.NDArray[np.bool_]:
    """Return whether each step is a transfer whose type meets a condition, as bool ``[steps]``.

    Args:
        steps: Steps of a phase.
        condition: Function that returns whether a transfer type meets the condition.
    """
    table, moves = np.array([condition(transfer_type) for transfer_type in TRANSFERS]), steps.kind == StepKind.TRANSFER
    return np.asarray(moves & table[np.where(moves, steps.code, 0)])


def is_of_type(steps: Steps, *transfer_types: type[Transfer]) -> npt.NDArray[np.bool_]:
    """Return whether each step is a transfer of one of the given types, as bool ``[steps]``."""
    return transfer_steps(steps, lambda transfer_type: transfer_type in transfer_types)


def by_counters(steps: Steps) -> npt.NDArray[np.int64]:
    """Return the indices of transfers that send more or fewer words as a user's cache fills.

    Their number of words depends on how many tokens and cache slots of the user are in use. The
    result is int64 ``[n]``.
    """
    return np.flatnonzero(transfer_steps(steps, lambda transfer_type: transfer_type.by_counters))


def transfer_of(
    program: Program,
    phase: Phase,
    step: int,
    slots: Slots,
    iteration: int = 0,
    chosen_wafers: frozenset[int] | None = None,
) -> Transfer:
    """Return the transfer of a step in one iteration of its loop.

    Args:
        program: The Program.
        phase: A phase of the Program.
        step: Index of a step of kind TRANSFER.
        slots: Cache slots in use in each stage, from ``Program.cache_slots``.
        iteration: Iteration of the step's loop. Outside loops, this is the phase's user, or 0 for
            decode.
        chosen_wafers: Wafers that store selected experts, if the step depends on the selection;
            None for all wafers.
    """
    steps = phase.steps
    transfer_type = TRANSFERS[int(steps.code[step])]
    operands = steps.operands(step, slots, iteration)
    pattern = int(steps.pattern[step])
    site = Site(
        program=program,
        stage=int(steps.stage[step]),
        pattern=program.patterns[pattern] if pattern >= 0 else None,
        axis=int(steps.axis[step]),
        view=int(steps.view[step]),
        round=iteration if steps.loop[step] >= 0 else 0,
        first_row=operands[0],
        rows=operands[1],
        begins=phase.begins,
        chosen_wafers=chosen_wafers,
    )
    return transfer_type(site=site, **{name: operands[index] for name, index in operand_index(transfer_type).items()})


def crossings_of(program: Program, phase: Phase) -> list[tuple[int, tuple[WaferPair, ...]]]:
    """Return the steps of a phase that send words between wafers, or to or from the host.

    For a step that depends on the selected experts, all possible wafer pairs are returned.
    ``PhaseCost.used_crossings`` contains only the pairs that are used in one run.

    Returns:
        For each such step, its index and its (sending, receiving) wafer pairs.
    """
    empty = program.cache_slots(0)
    leaving = np.flatnonzero(transfer_steps(phase.steps, lambda transfer_type: transfer_type.leaves_wafer)).tolist()
    return [(step, transfer_of(program, phase, step, empty).crossings) for step in leaving]
