"""Steps: what each step of a phase is, as arrays over the steps.

Address operands count elements of a view from the first byte of the stage that programs may use
(``Stage.sram_base_byte``). An operand of a step is linear in what varies while it runs:

    operand = fixed + (per_slot + per_slot_round * round) * slots + per_round * round + odd * (round % 2)

where ``slots`` is the number of cache slots in use on the fullest row, of the user with the most, and ``round`` counts
the turns of the step's loop; a step outside of loops is in the round of the phase's user.

What depends on a user's counters runs in a loop over the users, whose turns are the users.

Operands of steps that work on pairs of tokens and experts hold for the most pairs that a column may get; ``per_pair``
less for each fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.isa.instructions import KERNELS
from wse.isa.operands import FIRST_OPERAND

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

HOST = -1
"""The host's place among wafer numbers."""


class Kind(IntEnum):
    """What a step is."""

    COMPUTE = 0  # one kernel on every PE of a rectangle
    LINE = 1  # a pattern along rows or columns of a region
    CACHE_SHIFT = 2  # rows pass their oldest cache entry up
    HAND_OVER = 3  # a stream from one region to another of the same wafer
    CROSS = 4  # a stream between wafers, or to or from the host
    WAFERS = 5  # a pattern between the wafers of one stage, over their links


ROWS, COLUMNS = 0, 1
"""Axis of a LINE step: along rows (east-west) or along columns (north-south)."""

SKEWED = 2
"""Besides, an axis of a tile's outer index: PE (i, j) of a square holds block ``skew(i, P)[j]`` of
`wse_mappings.mesh.ring`."""


class Field(IntEnum):
    """Operands of the steps that move words. A COMPUTE step has those of its kernel's record instead."""

    SOURCE = 3  # address in elements of the step's view
    TARGET = 4
    ELEMENTS = 5
    TARGET_STAGE = 6  # HAND_OVER, CROSS between wafers
    SOURCE_COL = 7  # first column that sends; WAFERS: the one of each wafer that does
    TARGET_COL = 8
    COLS = 9  # columns that send
    FROM_WAFER = 10  # CROSS
    TO_WAFER = 11
    BYTES = 12  # CROSS: payload without padding; WAFERS: that from one wafer to another
    WHAT = 13  # CROSS with the host: see HostStream
    FIRST = 14  # CROSS of logits: local vocabulary index of the first
    COUNT = 15  # LINE with elements by pair: address (float32) of the pairs on a column
    PART = 16  # WAFERS: elements of one message
    ROUNDS = 17  # WAFERS: messages from one wafer to another, each after the one before
    LATENCIES = 18  # WAFERS: those of the link that are waited for
    CHOSEN = 19  # WAFERS where only wafers with chosen experts take part: 1 as they get, 2 as they send


class HostStream(IntEnum):
    """What a CROSS step with the host carries."""

    NONE = 0
    TOKENS_IN = 1  # the prompt
    TOKEN_OUT = 2
    LOGITS_OUT = 3
    DRAWN_IN = 4  # the id that the host drew from the logits


OPERAND_COUNT = max(FIRST_OPERAND + max(len(kernel.operands) for kernel in KERNELS), max(Field) + 1)
"""Operands of a step, of which most use fewer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """A sequence of steps, as a struct of arrays.

    Phases that go through the same steps hold one Steps object, so two phases have the same steps if and only if their
    ``steps`` are the same object. It is equal to itself alone and serves as a key of what follows from steps.

    Attributes:
        kind: int32 ``[steps]``, a Kind.
        code: int32 ``[steps]``: COMPUTE: index into ``instructions.KERNELS``; LINE, WAFERS: index into
            ``Program.patterns``.
        axis: int32 ``[steps]``: ROWS or COLUMNS of a LINE step.
        view: int32 ``[steps]``: index into ``instructions.VIEWS`` of the elements that a step moves.
        stage, op: int32 ``[steps]``: indices into ``Program.stages`` and ``Program.op_names``.
        loop: int32 ``[steps]``: index into ``loops`` or -1.
        overlap: int32 ``[steps]``: steps of one overlap group, which run at the same time, have one number; -1 alone.
        repaints: int32 ``[steps]``: how often the step's routes are rewritten, over all turns of its loop.
        fixed, per_slot, per_round, odd, per_slot_round, per_pair: int64 ``[steps, OPERAND_COUNT]``: see the module
            docstring.
        most_pairs: int64 ``[steps]``: pairs of tokens and experts for which ``fixed`` holds.
        loops: int32 ``[loops, 3]``: first step, one past the last, turns.
        over_users: bool ``[loops]``: whether a loop's turns are the users, whose counters its steps go by.
    """

    kind: I32
    code: I32
    axis: I32
    view: I32
    stage: I32
    op: I32
    loop: I32
    overlap: I32
    repaints: I32
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

    def operands(self, step: int, slots: int, round_: int = 0) -> I64:
        """int64 ``[OPERAND_COUNT]`` of one step."""
        varying = self.per_slot[step] * slots + self.per_round[step] * round_ + self.odd[step] * (round_ % 2)
        return np.asarray(self.fixed[step] + varying + self.per_slot_round[step] * (slots * round_), np.int64)

    @property
    def linear(self) -> tuple[I64, ...]:
        """The terms of all operands, each ``[steps, OPERAND_COUNT]``."""
        return tuple(getattr(self, name) for name in _OPERANDS)

    @cached_property
    def routed(self) -> npt.NDArray[np.bool_]:
        """bool ``[steps]``: whether a step's work depends on which experts were chosen."""
        chosen = (self.kind == Kind.WAFERS) & (self.fixed[:, Field.CHOSEN] > 0)
        return np.asarray(self.per_pair.any(axis=1) | chosen)

    def of_pairs(self, step: int, pairs: int) -> Steps:
        """One step alone, as it is where the column has so many pairs of tokens and experts."""
        one: dict[str, Any] = {name: getattr(self, name)[step : step + 1] for name in (*_OF_STEPS, *_OPERANDS)}
        one["fixed"] = one["fixed"] - one["per_pair"] * (self.most_pairs[step] - pairs)
        return replace(self, **one, most_pairs=np.array([pairs], np.int64))

    def turns(self, step: int) -> int:
        """The number of times that a step runs."""
        return 1 if self.loop[step] < 0 else int(self.loops[int(self.loop[step]), 2])


_OF_STEPS = ("kind", "code", "axis", "view", "stage", "op", "loop", "overlap", "repaints")
_OPERANDS = ("fixed", "per_slot", "per_round", "odd", "per_slot_round", "per_pair")
