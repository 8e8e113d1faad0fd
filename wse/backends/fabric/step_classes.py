"""Classes of equivalent steps. Cost and traffic are computed for one step per class.

The steps of a class differ only in the addresses of their operands. Layers of a model repeat, so a
phase has only a few dozen classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.program.isa.instructions import KERNELS
from wse.program.steps import OPERAND_COUNT, StepKind, Steps
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import ADDRESSES, is_of_type, operand_index, transfer_steps


def _addresses(operands: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a mask, bool ``[OPERAND_COUNT]``, that is True at the given operand indices."""
    return np.isin(np.arange(OPERAND_COUNT), operands)


_OF_KERNEL: Final = np.stack([_addresses(kernel.addresses) for kernel in KERNELS])
_OF_TRANSFER: Final = np.stack([_addresses(sorted(indices)) for indices in ADDRESSES])
_Which = slice | I64
_ALL: Final = slice(None)
_SHAPE: Final = slice(3, None)
_TARGET_STAGE: Final = operand_index(StageTransfer)["target_stage"]


def step_classes(steps: Steps, places: I64 | None = None, *, is_whole: bool = True) -> I64:
    """Return, for each step, the index of the first equivalent step, as int64 ``[steps]``.

    Many steps are repeated in every layer, so costs are computed for only one of several equivalent
    steps. Equivalent steps do the same work. They may differ in memory addresses, in the op and
    layer that they belong to, and in the router settings that they change.

    Args:
        steps: Steps of a phase.
        places: Place of each stage (group of layers), int64 ``[stages, 6]``: wafer, first row,
            first column, rows, columns and number of wafers of its region. Steps of stages whose
            regions have the same shape can be equivalent. Transfers whose cost depends on positions
            are the exception: they are only equivalent if they lead from one stage to another, and
            both regions have the same shapes and relative position. None if steps of different
            stages are never equivalent.
        is_whole: True if no PE or link is dead. Otherwise, transfers of different stages whose cost
            depends on positions are never equivalent.
    """
    numbers = list(_numbers(steps, _ALL))
    positions = steps.stage[:, None] if places is None else _positions(steps, places, numbers[0], is_whole=is_whole)
    numbers = [values[:, values.any(axis=0)] for values in numbers]
    rows = np.concatenate([_traits(steps, _ALL), steps.pattern[:, None], positions, *numbers], axis=1)
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(row.tobytes(), step) for step, row in enumerate(rows)], np.int64)


def _positions(steps: Steps, places: I64, fixed: I64, *, is_whole: bool) -> I64:
    """Return, for each step, the properties of its region of PEs that affect its cost.

    Steps of equal cost must have the same properties:

    1. For every step, the shape of its region.
    2. For a transfer whose cost depends on positions, also the stage.
    3. For a transfer to another stage, the difference in position and shape between the two regions
       replaces the stage. This applies only if no PE or link is dead, and only to transfers that do
       not depend on the selected experts.

    Args:
        steps, places, is_whole: See `step_classes`.
        fixed: int64 ``[steps, OPERAND_COUNT]``, fixed parts of the operands. In case 3, the index
            of the target stage is set to 0.

    Returns:
        int64 ``[steps, n]``, one row per step.
    """
    by_place = transfer_steps(steps, lambda kind: kind.by_place)
    stage, relations = np.where(by_place, 1 + steps.stage, 0), np.zeros((len(steps), places.shape[1]), np.int64)
    if is_whole:
        streams = np.flatnonzero(is_of_type(steps, StageTransfer, Crossing) & ~steps.depends_on_experts)
        relations[streams] = places[fixed[streams, _TARGET_STAGE]] - places[steps.stage[streams]]
        stage[streams] = fixed[streams, _TARGET_STAGE] = 0
    return np.concatenate([stage[:, None], places[steps.stage, _SHAPE], relations], axis=1)


def contents_of(steps: Steps, step_indices: I64) -> list[bytes]:
    """Return a key for each of the given steps; steps with equal keys can share a cached cost.

    The steps may belong to different Programs. The cost is equal only if the steps also have the
    same communication pattern, shape of the region of PEs, and number of cached tokens, and if it
    does not depend on positions.

    Args:
        steps: Steps of a phase.
        step_indices: int64 ``[n]``, indices of the given steps.

    Returns:
        One key for each element of ``step_indices``.
    """
    rows = np.concatenate([_traits(steps, step_indices), *_numbers(steps, step_indices)], axis=1)
    return [row.tobytes() for row in rows]


def _traits(steps: Steps, step_indices: _Which) -> I64:
    """Return the properties of each step, besides its operands, that affect its cost.

    These are its type, whether and how it overlaps with other steps, and its iteration count.
    Pattern and stage are not included.

    Returns:
        int64 ``[steps, traits]``.
    """
    loop = steps.loop[step_indices]
    iterations = np.append(steps.loops[:, 2], 1)[loop]
    kinds = [values[step_indices] for values in (steps.kind, steps.code, steps.axis, steps.view)]
    flags = [
        loop >= 0,
        steps.overlap[step_indices] >= 0,
        steps.runs_in_previous_task[step_indices],
        steps.over_heads[step_indices],
        steps.in_chain[step_indices],
    ]
    return np.stack([*kinds, *flags, iterations], axis=1).astype(np.int64)


def _numbers(steps: Steps, step_indices: _Which) -> Iterator[I64]:
    """Yield the arrays of coefficients from which the operands of steps are computed.

    Operands are linear functions of the number of cached tokens, the iteration of the step's loop,
    and the number of (token, expert) pairs. Each array contains the coefficients of one term, int64
    ``[steps, OPERAND_COUNT]``. The coefficients of address operands are set to 0, because costs do
    not depend on addresses.
    """
    address = _is_address(steps, step_indices)
    return (np.where(address, 0, values[step_indices]) for values in steps.linear)


def by_slots(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps cost more with more tokens in the KV cache, as bool ``[steps]``."""
    grows = (steps.per_slot != 0) | (steps.per_slot_round != 0)
    return np.asarray((grows & ~_is_address(steps, _ALL)).any(axis=1), np.bool_)


def _is_address(steps: Steps, step_indices: _Which) -> npt.NDArray[np.bool_]:
    """Return which operands are addresses, as bool ``[steps, OPERAND_COUNT]``."""
    computes, code = steps.kind[step_indices] == StepKind.COMPUTE, steps.code[step_indices]
    kernel_addresses = _OF_KERNEL[np.where(computes, code, 0)]
    return np.where(computes[:, None], kernel_addresses, _OF_TRANSFER[np.where(computes, 0, code)])
