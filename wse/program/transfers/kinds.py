"""The kinds of transfers that a Program can have, and the transfer of a step.

A step of kind TRANSFER names its kind of transfer by its index in TRANSFERS. Its operands stand in the order of the
kind's fields, from FIRST_OPERAND on, after its first row and its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.program.isa.operands import FIRST_OPERAND
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind, Slots, Steps
from wse.program.transfers.host_streams import DraftIn, DrawnIn, LogitsOut, TokenOut, TokensIn
from wse.program.transfers.patterns import AlongLine, BetweenWafers, CacheShift
from wse.program.transfers.stage_streams import Crossing, HandOver
from wse.program.transfers.transfer import Site, Transfer, WaferPair

TRANSFERS: Final[tuple[type[Transfer], ...]] = (
    AlongLine,
    CacheShift,
    HandOver,
    Crossing,
    BetweenWafers,
    TokensIn,
    TokenOut,
    LogitsOut,
    DraftIn,
    DrawnIn,
)


def operand_index(kind: type[Transfer]) -> dict[str, int]:
    """Return the index of each operand of a kind of transfer among the operands of a step, by name."""
    return _OPERANDS[kind]


_OPERANDS: Final = {
    kind: {field.name: i for i, field in enumerate(fields(kind)[1:], FIRST_OPERAND)}  # the first field is the site
    for kind in TRANSFERS
}

ADDRESSES: Final = tuple(frozenset(operand_index(kind)[name] for name in kind.addresses) for kind in TRANSFERS)
"""Indices of the operands that are addresses, by kind of transfer."""


def transfer_steps(steps: Steps, holds: Callable[[type[Transfer]], bool]) -> npt.NDArray[np.bool_]:
    """bool ``[steps]``: which steps are transfers of a kind for which something holds."""
    table, moves = np.array([holds(kind) for kind in TRANSFERS]), steps.kind == Kind.TRANSFER
    return np.asarray(moves & table[np.where(moves, steps.code, 0)])


def of_kind(steps: Steps, *kinds: type[Transfer]) -> npt.NDArray[np.bool_]:
    """bool ``[steps]``: which steps are transfers of one of some kinds."""
    return transfer_steps(steps, lambda kind: kind in kinds)


def by_counters(steps: Steps) -> npt.NDArray[np.int64]:
    """int64 ``[n]``: the transfers whose words depend on a user's counters."""
    return np.flatnonzero(transfer_steps(steps, lambda kind: kind.by_counters))


def transfer_of(
    program: Program, phase: Phase, step: int, slots: Slots, turn: int = 0, chosen: frozenset[int] | None = None
) -> Transfer:
    """Return the transfer of a step in one turn of its loop.

    Args:
        program: The Program.
        phase: One of its phases.
        step: A step of kind TRANSFER.
        slots: Cache slots in use, as ``Program.cache_slots`` has them.
        turn: The turn of the step's loop; outside of loops the phase's user, 0 for decode.
        chosen: The wafers that hold chosen experts, where the step depends on them; None for all.
    """
    steps = phase.steps
    kind = TRANSFERS[int(steps.code[step])]
    operands = steps.operands(step, slots, turn)
    pattern = int(steps.pattern[step])
    site = Site(
        program=program,
        stage=int(steps.stage[step]),
        pattern=program.patterns[pattern] if pattern >= 0 else None,
        axis=int(steps.axis[step]),
        view=int(steps.view[step]),
        round=turn if steps.loop[step] >= 0 else 0,
        first_row=operands[0],
        rows=operands[1],
        begins=phase.begins,
        chosen=chosen,
    )
    return kind(site=site, **{name: operands[index] for name, index in operand_index(kind).items()})


def crossings_of(program: Program, phase: Phase) -> list[tuple[int, tuple[WaferPair, ...]]]:
    """Return the steps whose words leave a wafer, each with the pairs of wafers that it sends between.

    Those that go by the choice of experts may send between them: ``PhaseCost.crossed`` has those that do in one run.
    """
    empty = program.cache_slots(0)
    leaving = np.flatnonzero(transfer_steps(phase.steps, lambda kind: kind.leaves_wafer)).tolist()
    return [(step, transfer_of(program, phase, step, empty).crossings) for step in leaving]
