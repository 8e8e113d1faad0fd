"""Steps that differ only in where their operands stand cost and move the same: a model's layers repeat a few dozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.program.isa.instructions import KERNELS
from wse.program.steps import OPERAND_COUNT, Kind, Steps
from wse.program.transfers.kinds import ADDRESSES, transfer_steps


def _addresses(operands: Sequence[int]) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(OPERAND_COUNT), operands)


_OF_KERNEL: Final = np.stack([_addresses(kernel.addresses) for kernel in KERNELS])
_OF_TRANSFER: Final = np.stack([_addresses(sorted(indices)) for indices in ADDRESSES])
_Which = slice | I64
_ALL: Final = slice(None)


def step_classes(steps: Steps, shapes: I64 | None = None) -> I64:
    """Return for each step the first one that equals it except for addresses, op, layer and route rewrites.

    ``shapes`` int64 ``[stages]`` has one number for all stages whose regions have one shape: there only streams, which
    depend on where regions stand, differ by stage. Without it all stages differ.
    """
    streams = transfer_steps(steps, lambda kind: kind.by_place)
    stage = steps.stage if shapes is None else np.where(streams, steps.stage, shapes[steps.stage])
    numbers = [values[:, values.any(axis=0)] for values in _numbers(steps, _ALL)]
    rows = np.concatenate([_traits(steps, _ALL), np.stack([steps.pattern, stage], axis=1), *numbers], axis=1)
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(row.tobytes(), step) for step, row in enumerate(rows)], np.int64)


def contents_of(steps: Steps, which: I64) -> list[bytes]:
    """Return everything that the costs of some steps depend on, except pattern, region and cache slots.

    Steps of different Programs that have one content, and no words that depend on where regions stand, cost the same.
    """
    rows = np.concatenate([_traits(steps, which), *_numbers(steps, which)], axis=1)
    return [row.tobytes() for row in rows]


def _traits(steps: Steps, which: _Which) -> I64:
    """Return the kind of each step and how it runs, int64 ``[steps, traits]``, without pattern and stage."""
    loop = steps.loop[which]
    turns = np.append(steps.loops[:, 2], 1)[loop]
    kinds = [of_all[which] for of_all in (steps.kind, steps.code, steps.axis, steps.view)]
    flags = [loop >= 0, steps.overlap[which] >= 0, steps.joined[which], steps.over_heads[which], steps.in_chain[which]]
    return np.stack([*kinds, *flags, turns], axis=1).astype(np.int64)


def _numbers(steps: Steps, which: _Which) -> Iterator[I64]:
    """Return the operands of steps, int64 ``[steps, OPERAND_COUNT]`` per term; 0 for addresses."""
    address = _is_address(steps, which)
    return (np.where(address, 0, values[which]) for values in steps.linear)


def by_slots(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps cost more with more cache slots in their stage, bool ``[steps]``."""
    grows = (steps.per_slot != 0) | (steps.per_slot_round != 0)
    return np.asarray((grows & ~_is_address(steps, _ALL)).any(axis=1), np.bool_)


def _is_address(steps: Steps, which: _Which) -> npt.NDArray[np.bool_]:
    """Return which operands are addresses, bool ``[steps, OPERAND_COUNT]``."""
    computes, code = steps.kind[which] == Kind.COMPUTE, steps.code[which]
    of_kernel = _OF_KERNEL[np.where(computes, code, 0)]
    return np.where(computes[:, None], of_kernel, _OF_TRANSFER[np.where(computes, 0, code)])
