"""A phase of a Program: the steps of one prefill chunk, of one decoded token of each user, or of several of one user.

Users are those whose prompts are answered together. Each has a cache and counters of its own; a decoded token is one of
each user. A pass over several new tokens of one user, such as drafted ones that are to be verified, finds those before
them in that user's cache and gives the id that follows each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.program.steps import Steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase:
    """A run through a sequence of steps.

    Attributes:
        name: ``prefill``, ``decode`` or ``verify``.
        tokens: Tokens that it processes: of a user's prompt, one of each user, or several new ones of one user.
        user: Whose tokens it reads; -1 for decode, which works for all.
        on_mesh: Whether tokens lie on the rows, a share each, rather than on every PE.
        cached: Tokens in the user's cache before a prefill chunk; 0 for the others, where it varies.
        steps: The steps, one object for all phases that go through the same ones.
    """

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    steps: Steps

    @property
    def begins(self) -> bool:
        """True if it is the first of a run, or one of decode, before which nothing of its user is cached."""
        return self.cached == 0 and self.user <= 0

    def user_of(self, step: int, turn: int) -> int:
        """Return the user whose counters a step depends on in a turn of its loop."""
        loop = int(self.steps.loop[step])
        return turn if loop >= 0 and self.steps.over_users[loop] else max(self.user, 0)

    def round_of(self, step: int, turn: int) -> int:
        """Return the round by which a step's operands vary: the turn of its loop.

        Outside of loops the user, 0 for decode.
        """
        return turn if self.steps.loop[step] >= 0 else max(self.user, 0)

    def of_pairs(self, step: int, pairs: int) -> Phase:
        """Return the phase with one step alone, as it is where the column has so many pairs of tokens and experts."""
        return replace(self, steps=self.steps.of_pairs(step, pairs))
