"""The ids of passes over several tokens, from such a pass on until some of its tokens are kept."""

from __future__ import annotations

from collections.abc import Sequence

from wse.backends.execute.caches import Caches
from wse.errors import BadInput
from wse.program.program import Program


class VerifiedIds:
    """The ids that followed the tokens of each user's last pass over several tokens."""

    def __init__(self, program: Program, caches: Caches) -> None:
        self._program, self._caches = program, caches
        self._by_user: dict[int, list[int]] = {}

    def check(self, tokens: Sequence[int], user: int) -> None:
        """Check the tokens of a user's next pass.

        Raises:
            BadInput: there are not as many as the Program was compiled for, or the user's cache has no room for them.
        """
        count, program = len(tokens), self._program
        if not program.verify_tokens or count != program.verify_tokens:
            message = f"{count} tokens to verify: the Program has passes over {program.verify_tokens}"
            raise BadInput(message)
        length = self._caches.length(user)
        if length + count > program.context:
            message = f"{count} tokens to verify after {length}: the cache holds {program.context}; decode these"
            raise BadInput(message)

    def add(self, ids: Sequence[int], user: int) -> None:
        """Store the ids of a user's pass, replacing those of the one before."""
        self._by_user[user] = list(ids)

    def keep(self, tokens: int, user: int) -> int:
        """Return the id that follows the first ``tokens`` of a user's last pass.

        Raises:
            BadInput: there are less than 1 or more than the pass had, or its tokens were kept before.
        """
        most, ids = self._program.verify_tokens, self._by_user.get(user)
        if ids is None or not 1 <= tokens <= most:
            message = f"{tokens} tokens of user {user} to keep: give 1 to {most}, once after each pass"
            raise BadInput(message)
        del self._by_user[user]
        return ids[tokens - 1]
