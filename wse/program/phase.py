"""Phase of a Program: one prefill chunk, one decode pass, or one verification pass.

The users of a Program are sequences that are processed together; each has its own cache and
counters. A decode pass generates one token for each user. A verification pass processes several new
tokens of one user, such as draft tokens. The user's cache contains the preceding tokens, and the
pass yields the id that follows each new token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.program.steps import Steps


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
        steps: Steps of the phase. Phases with the same steps refer to the same object.
    """

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    steps: Steps

    @property
    def begins(self) -> bool:
        """Whether the phase is the first chunk of the first prompt, which waits for the host.

        This chunk waits until its token ids have arrived from the host. Later chunks do not wait,
        because their ids arrive while earlier chunks are processed.

        Decode, and the verification pass of user 0, also have the value True.
        """
        return self.cached == 0 and self.user <= 0

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
