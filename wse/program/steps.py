"""Phases of a Program, and their steps as arrays with one element per step.

Address operands count elements of a view from the first byte of the stage that programs may use
(``Stage.sram_base_byte``). An operand of a step is a linear function of the values that vary at run
time:

    operand = fixed + (per_slot + per_slot_round * round) * slots
              + per_round * round + odd * (round % 2)

where ``slots`` is the number of cache slots in use on the fullest row of the step's stage, for the
user with the longest cache. ``round`` is the iteration of the step's loop. For a step outside
loops, it is the user of the phase.

Steps that depend on the counters of a user are in a loop over the users, with one iteration per
user.

Steps with mixtures of experts process (token, expert) pairs. The operands of such a step are valid
for the maximum number of pairs on a column. ``per_pair`` is subtracted for each missing pair.

The users of a Program are sequences that are processed together; each has its own cache and
counters. A decode pass generates one token for each user. A verification pass processes several new
tokens of one user, such as draft tokens. The user's cache contains the preceding tokens, and the
pass yields the id that follows each new token.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.arrays import I32, I64
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import FIRST_OPERAND

Slots = tuple[int, ...]
"""Cache slots in use on the fullest row of each stage, for the user with the longest cache."""

HOST = -1
"""Index that stands for the host where wafers are expected."""


class StepKind(IntEnum):
    """Type of a step: a computation (kernel on a rectangle of PEs) or a transfer of words."""

    COMPUTE = 0  # one kernel on every PE of a rectangle
    TRANSFER = 1  # words that move, with one of the transfer types of `wse.program.transfers.transfer_types`


_COMPUTE: Final = int(StepKind.COMPUTE)  # a global int, because looking up an enum member would dominate `computes`

ROWS, COLUMNS = 0, 1
"""Axis of a pattern's lines: along rows (east-west) or along columns (north-south)."""

SKEWED = 2
"""A third axis, for the outer index of a tile only, with the layout of Cannon's algorithm.

PE (i, j) of a P x P square stores block ``skew(i, P)[j]`` (`wse_mappings.patterns.rings`).
"""


OPERAND_COUNT = FIRST_OPERAND + max(len(kernel.operands) for kernel in KERNELS)
"""Number of operands of every step: the maximum over all kernels.

Kernels have more operands than transfers.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Sequence of steps, stored as one array per property.

    Phases with the same steps share one Steps object. Two phases therefore have the same steps if
    and only if their ``steps`` are the same object. An instance is equal only to itself, and can be
    a key for values that are derived from the steps.

    Attributes:
        kind: int32 ``[steps]``, a StepKind.
        code: int32 ``[steps]``. COMPUTE: index into ``instructions.KERNELS``. TRANSFER: index into
            ``transfer_types.TRANSFERS``.
        pattern: int32 ``[steps]``, index into ``Program.patterns``; -1 for steps without a pattern.
        axis: int32 ``[steps]``: ROWS or COLUMNS, the direction of the pattern's lines.
        view: int32 ``[steps]``, index into ``wse.program.isa.operands.VIEWS`` of the elements that
            a step moves.
        stage, op: int32 ``[steps]``, indices into ``Program.stages`` and ``Program.op_names``.
        loop: int32 ``[steps]``, index into ``loops``, or -1.
        overlap: int32 ``[steps]``, index of the overlap group. The steps of a group run
            concurrently. -1 for a step that runs alone.
        in_chain: bool ``[steps]``. The kernels of an overlap group form a chain: each starts when
            the previous one has finished. True for a transfer that is part of this chain.
        route_rewrites: int32 ``[steps]``, how often the step's routes are rewritten, summed over
            the iterations of its loop.
        depends_on_experts: bool ``[steps]``, True if the work of a step depends on the selected
            experts.
        runs_in_previous_task: bool ``[steps]``, True if a step runs in the task of the preceding
            compute step, so that no task is dispatched for it.
        over_heads: bool ``[steps]``, True if a kernel may vectorise over heads instead of over the
            elements of a head. It does so if this needs fewer cycles. The sums are the same.
        fixed, per_slot, per_round, odd, per_slot_round, per_pair: int64 ``[steps, OPERAND_COUNT]``;
            see the module docstring.
        max_pairs: int64 ``[steps]``, number of (token, expert) pairs for which ``fixed`` is valid.
        loops: int32 ``[loops, 3]``: first step, one past the last step, number of iterations.
        over_users: bool ``[loops]``, True if a loop has one iteration per user. Its steps then
            depend on that user's counters.
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
    route_rewrites: I32
    depends_on_experts: npt.NDArray[np.bool_]
    runs_in_previous_task: npt.NDArray[np.bool_]
    over_heads: npt.NDArray[np.bool_]
    fixed: I64
    per_slot: I64
    per_round: I64
    odd: I64
    per_slot_round: I64
    per_pair: I64
    max_pairs: I64
    loops: I32
    over_users: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kind)

    def computes(self, step: int) -> bool:
        """Return True if a step runs a kernel, False if it moves words."""
        return bool(self.kind[step] == _COMPUTE)

    def operands(self, step: int, slots: Slots, round_: int = 0) -> list[int]:
        """Return all operand values of one step in one iteration of its loop.

        Args:
            step: Index of the step.
            slots: For each stage (region with its layers), the number of cache slots in use on its
                fullest row of PEs. A cache slot stores the keys and values of one token.
            round_: Iteration of the step's loop. Outside loops, it is the user of the phase
                (``Phase.round_of``).

        Returns:
            OPERAND_COUNT integers. Each is an address, in elements, or a number.
        """
        in_use = slots[self.stage[step]]
        if round_ == 0:
            return [
                fixed + slot_factor * in_use
                for fixed, slot_factor in zip(self.fixed[step].tolist(), self.per_slot[step].tolist(), strict=True)
            ]
        varying = self.per_slot[step] * in_use + self.per_round[step] * round_ + self.odd[step] * (round_ % 2)
        return list((self.fixed[step] + varying + self.per_slot_round[step] * (in_use * round_)).tolist())

    @property
    def linear(self) -> tuple[I64, ...]:
        """Coefficients of the formula that computes the operands of each step at run time.

        The operands are ``fixed + per_slot * slots + per_round * round + odd * (round % 2) +
        per_slot_round * slots * round``, minus ``per_pair`` for each (token, expert) pair below the
        maximum. ``slots`` is the number of cache entries in use, and ``round`` is the iteration of
        the step's loop. The tuple contains one array ``[steps, OPERAND_COUNT]`` per coefficient, in
        the order of the formula.
        """
        return tuple(getattr(self, name) for name in _OPERANDS)

    def with_pairs(self, step: int, pairs: int) -> Steps:
        """Return a single step, with its operands changed to a number of (token, expert) pairs.

        In a mixture of experts, the work of a column of PEs depends on how many pairs it processes.
        The original operands are for the maximum number of pairs.

        Args:
            step: Index of the step.
            pairs: Number of pairs for which the returned operands are valid.
        """
        arrays: dict[str, Any] = {name: getattr(self, name)[step : step + 1] for name in (*_OF_STEPS, *_OPERANDS)}
        arrays["fixed"] = arrays["fixed"] - arrays["per_pair"] * (self.max_pairs[step] - pairs)
        return replace(self, **arrays, max_pairs=np.array([pairs], np.int64))

    def iterations(self, step: int) -> int:
        """Return how many times a step runs in a phase: the iterations of its loop, or 1."""
        return 1 if self.loop[step] < 0 else int(self.loops[int(self.loop[step]), 2])


_OPERANDS = ("fixed", "per_slot", "per_round", "odd", "per_slot_round", "per_pair")
"""Attributes with one value per operand of every step."""

_OF_STEPS = tuple(
    field.name for field in fields(Steps) if field.name not in (*_OPERANDS, "max_pairs", "loops", "over_users")
)
"""Attributes with one value per step, except ``max_pairs``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase:
    """One prefill chunk, one decode pass or one verification pass, with its steps.

    A step is a kernel on a rectangle of PEs, or a transfer of words.

    Attributes:
        name: ``prefill``, ``decode`` or ``verify``.
        tokens: Number of tokens that the phase processes: a chunk of a user's prompt, one token per
            user, or several new tokens of one user.
        user: User whose tokens are read; -1 for decode, which processes all users.
        on_mesh: True if the tokens are divided among the rows of PEs. False if every PE has all
            tokens.
        cached: Number of tokens in the user's cache before a prefill chunk; 0 for other phases,
            where the number varies.
        prefix_tokens: Value of ``cached`` for the first chunk of the prompt; 0 if no prefix of the
            prompt is cached.
        steps: Steps of the phase. Phases with the same steps refer to the same object.
    """

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    prefix_tokens: int = 0
    steps: Steps

    @property
    def begins(self) -> bool:
        """True if the phase is the first chunk of the first prompt, which waits for the host.

        This chunk waits until its token ids have arrived from the host. Later chunks do not wait,
        because their ids arrive while earlier chunks are processed.

        Decode, and the verification pass of user 0, also have the value True.
        """
        return self.cached == self.prefix_tokens and self.user <= 0

    def user_of(self, step: int, iteration: int) -> int:
        """Return the index of the user whose token count and cache determine a step's operands.

        Args:
            step: Index of the step.
            iteration: Iteration of the step's loop. In a loop over users, this is the user.
        """
        loop = int(self.steps.loop[step])
        return iteration if loop >= 0 and self.steps.over_users[loop] else max(self.user, 0)

    def round_of(self, step: int, iteration: int) -> int:
        """Return the value of the variable ``round`` in the formulas of a step's operands.

        In a loop, ``round`` is the iteration. Outside loops, it is the user of the phase, or 0 for
        decode.

        Args:
            step: Index of the step.
            iteration: Iteration of the loop that contains the step; ignored outside loops.
        """
        return iteration if self.steps.loop[step] >= 0 else max(self.user, 0)

    def with_pairs(self, step: int, pairs: int) -> Phase:
        """Return a copy of the phase with a single step, for a number of (token, expert) pairs.

        In a mixture of experts, the work of a column of PEs depends on how many pairs it processes.
        The original step is for the maximum number of pairs.

        Args:
            step: Index of the step to keep.
            pairs: Number of pairs that the step of the copy processes.
        """
        return replace(self, steps=self.steps.with_pairs(step, pairs))
