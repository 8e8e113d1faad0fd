"""Steps: what each step of a phase is, as arrays over the steps.

Address operands count elements of a view from the first byte of the stage that programs may use
(``Stage.sram_base_byte``). An operand of a step is linear in what varies while it runs:

    operand = fixed + (per_slot + per_slot_round * round) * slots + per_round * round + odd * (round % 2)

where ``slots`` is the number of cache slots in use on the fullest row of the step's stage, of the user with the most,
and ``round`` counts the turns of the step's loop; a step outside of loops is in the round of the phase's user.

What depends on a user's counters runs in a loop over the users, whose turns are the users.

Operands of steps that work on pairs of tokens and experts hold for the most pairs that a column may get; ``per_pair``
less for each fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import FIRST_OPERAND

Slots = tuple[int, ...]
"""Cache slots in use on the fullest row of each stage, of the user with the most."""

HOST = -1
"""The host's place among wafer numbers."""


class Kind(IntEnum):
    """The two kinds of steps."""

    COMPUTE = 0  # one kernel on every PE of a rectangle
    TRANSFER = 1  # words that move, in one of the ways of `wse.program.transfers.kinds`


_COMPUTE: Final = int(Kind.COMPUTE)  # an attribute of an enumeration takes longer to find than a step to look at

ROWS, COLUMNS = 0, 1
"""Axis of a pattern's lines: along rows (east-west) or along columns (north-south)."""

SKEWED = 2
"""Besides, an axis of a tile's outer index: PE (i, j) of a square holds block ``skew(i, P)[j]`` of
`wse_mappings.mesh.ring`."""


OPERAND_COUNT = FIRST_OPERAND + max(len(kernel.operands) for kernel in KERNELS)
"""Operands of a step, of which most use fewer. Kernels have the most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """A sequence of steps, as a struct of arrays.

    Phases that go through the same steps hold one Steps object, so two phases have the same steps if and only if their
    ``steps`` are the same object. It is equal to itself alone and serves as a key of what follows from steps.

    Attributes:
        kind: int32 ``[steps]``, a Kind.
        code: int32 ``[steps]``: COMPUTE: index into ``instructions.KERNELS``; TRANSFER: into ``kinds.TRANSFERS``.
        pattern: int32 ``[steps]``: index into ``Program.patterns`` of a transfer that has one; -1 elsewhere.
        axis: int32 ``[steps]``: ROWS or COLUMNS of the pattern's lines.
        view: int32 ``[steps]``: index into ``wse.program.isa.operands.VIEWS`` of the elements that a step moves.
        stage, op: int32 ``[steps]``: indices into ``Program.stages`` and ``Program.op_names``.
        loop: int32 ``[steps]``: index into ``loops`` or -1.
        overlap: int32 ``[steps]``: steps of one overlap group, which run at the same time, have one number; -1 alone.
        in_chain: bool ``[steps]``: whether a transfer of an overlap group is one of the chain that the group's kernels
            are, which follow each other: it starts when the kernel before it is done, and the next one waits for it.
        repaints: int32 ``[steps]``: how often the step's routes are rewritten, over all turns of its loop.
        routed: bool ``[steps]``: whether a step's work depends on which experts were chosen.
        joined: bool ``[steps]``: whether a step runs in the task of the step before it, which computes, and no task is
            dispatched for it.
        over_heads: bool ``[steps]``: whether the vectors of a kernel may go over heads instead of one head's elements,
            which it does where that takes fewer cycles. It changes no sum.
        fixed, per_slot, per_round, odd, per_slot_round, per_pair: int64 ``[steps, OPERAND_COUNT]``: see the module
            docstring.
        most_pairs: int64 ``[steps]``: pairs of tokens and experts for which ``fixed`` holds.
        loops: int32 ``[loops, 3]``: first step, one past the last, turns.
        over_users: bool ``[loops]``: whether a loop's turns are the users, whose counters its steps depend on.
    """

    kind: I32
    code: I32
    pattern: I32
    axis: I32
    view: I32
    stage: I32
    op: I32
    loop: I32
    overlap: I32
    in_chain: npt.NDArray[np.bool_]
    repaints: I32
    routed: npt.NDArray[np.bool_]
    joined: npt.NDArray[np.bool_]
    over_heads: npt.NDArray[np.bool_]
    fixed: I64
    per_slot: I64
    per_round: I64
    odd: I64
    per_slot_round: I64
    per_pair: I64
    most_pairs: I64
    loops: I32
    over_users: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kind)

    def computes(self, step: int) -> bool:
        """Return whether a step runs a kernel; the others move words."""
        return bool(self.kind[step] == _COMPUTE)

    def operands(self, step: int, slots: Slots, round_: int = 0) -> list[int]:
        """Return the OPERAND_COUNT operands of one step."""
        in_use = slots[self.stage[step]]
        if round_ == 0:
            return [
                fixed + more * in_use
                for fixed, more in zip(self.fixed[step].tolist(), self.per_slot[step].tolist(), strict=True)
            ]
        varying = self.per_slot[step] * in_use + self.per_round[step] * round_ + self.odd[step] * (round_ % 2)
        return list((self.fixed[step] + varying + self.per_slot_round[step] * (in_use * round_)).tolist())

    @property
    def linear(self) -> tuple[I64, ...]:
        """The terms of all operands, each ``[steps, OPERAND_COUNT]``."""
        return tuple(getattr(self, name) for name in _OPERANDS)

    def of_pairs(self, step: int, pairs: int) -> Steps:
        """Return a sequence of one step alone, as it is where the column has so many pairs of tokens and experts."""
        arrays: dict[str, Any] = {name: getattr(self, name)[step : step + 1] for name in (*_OF_STEPS, *_OPERANDS)}
        arrays["fixed"] = arrays["fixed"] - arrays["per_pair"] * (self.most_pairs[step] - pairs)
        return replace(self, **arrays, most_pairs=np.array([pairs], np.int64))

    def turns(self, step: int) -> int:
        """Return the number of times that a step runs."""
        return 1 if self.loop[step] < 0 else int(self.loops[int(self.loop[step]), 2])


_OF_STEPS = (
    *(
        "kind",
        "code",
        "pattern",
        "axis",
        "view",
        "stage",
        "op",
        "loop",
        "overlap",
        "in_chain",
        "repaints",
        "routed",
        "joined",
        "over_heads",
    ),
)
_OPERANDS = ("fixed", "per_slot", "per_round", "odd", "per_slot_round", "per_pair")
