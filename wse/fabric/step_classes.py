"""Steps that differ only in where their operands stand cost and move the same: a model's layers repeat a few dozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.isa.instructions import KERNELS
from wse.program.steps import OPERAND_COUNT, Kind, Steps
from wse.program.transfers.kinds import ADDRESSES, transfer_steps


def _addresses(operands: Sequence[int]) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(OPERAND_COUNT), operands)


_OF_KERNEL: Final = np.stack([_addresses(kernel.addresses) for kernel in KERNELS])
_OF_TRANSFER: Final = np.stack([_addresses(sorted(indices)) for indices in ADDRESSES])


def step_classes(steps: Steps, shapes: I64 | None = None) -> I64:
    """int64 ``[steps]``: for each step the first one that equals it but for addresses, op, layer and repaints.

    ``shapes`` int64 ``[stages]`` has one number for all stages whose regions have one shape: there only streams, which
    go by where regions stand, differ by stage. Without it all stages differ.
    """
    address = _is_address(steps)
    numbers = [
        np.where(address[:, is_linear], 0, values[:, is_linear])
        for values in steps.linear
        for is_linear in [values.any(axis=0)]
    ]
    turns = np.append(steps.loops[:, 2], 1)[steps.loop]
    overlaps = steps.overlap >= 0
    streams = transfer_steps(steps, lambda kind: kind.by_place)
    stage = steps.stage if shapes is None else np.where(streams, steps.stage, shapes[steps.stage])
    flags = [overlaps, steps.joined, steps.over_heads, turns]
    what = np.stack([steps.kind, steps.code, steps.pattern, steps.axis, steps.view, stage, *flags], axis=1)
    rows = np.concatenate([what, *numbers], axis=1, dtype=np.int64)
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(row.tobytes(), step) for step, row in enumerate(rows)], np.int64)


def content_of(steps: Steps, step: int) -> bytes:
    """All of a step that its cost depends on, except its pattern, its region, and the cache slots in use.

    Steps of different Programs that have one content, and no words that go by where regions stand, cost the same.
    """
    of_kind = _OF_KERNEL if steps.computes(step) else _OF_TRANSFER
    addresses = of_kind[steps.code[step]]
    what = [int(steps.kind[step]), int(steps.code[step]), int(steps.axis[step]), int(steps.view[step])]
    how = [int(steps.loop[step] >= 0), steps.turns(step), int(steps.overlap[step] >= 0)]
    flags = [int(steps.joined[step]), int(steps.over_heads[step])]
    numbers = np.stack([values[step] for values in steps.linear])
    numbers[:, addresses] = 0
    return np.append(numbers.ravel(), [*what, *how, *flags]).tobytes()


def by_slots(steps: Steps) -> npt.NDArray[np.bool_]:
    """bool ``[steps]``: which steps cost and move the more, the more cache slots are in use in their stage."""
    grows = (steps.per_slot != 0) | (steps.per_slot_round != 0)
    return np.asarray((grows & ~_is_address(steps)).any(axis=1), np.bool_)


def _is_address(steps: Steps) -> npt.NDArray[np.bool_]:
    """bool ``[steps, OPERAND_COUNT]``: which operands are addresses."""
    computes = steps.kind == Kind.COMPUTE
    of_kernel = _OF_KERNEL[np.where(computes, steps.code, 0)]
    return np.where(computes[:, None], of_kernel, _OF_TRANSFER[np.where(computes, 0, steps.code)])
