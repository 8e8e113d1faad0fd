"""Ids of verification passes, stored from a pass until some of its tokens are kept."""

from __future__ import annotations

from collections.abc import Sequence

from wse.backends.execute.caches import Caches
from wse.errors import BadInput
from wse.program.program import Program


class VerifiedIds:
    """The id that the model found after each token of a user's last verification pass, by user.

    The ids are stored until the number of accepted tokens of the pass is known (`keep`).
    """

    def __init__(self, program: Program, caches: Caches) -> None:
        self._program, self._caches = program, caches
        self._by_user: dict[int, list[int]] = {}

    def check(self, tokens: Sequence[int], user: int) -> None:
        """Raise an error if a user's next verification pass cannot run over the given tokens.

        Raises:
            BadInput: The number of tokens differs from the number that the Program verifies, or the
                tokens do not fit into the user's cache.
        """
        count, program = len(tokens), self._program
        if not program.verify_tokens or count != program.verify_tokens:
            message = f"{count} tokens to verify: the Program has passes over {program.verify_tokens}"
            raise BadInput(message)
        length = self._caches.length(user)
        if length + count > program.context:
            message = (
                f"{count} tokens to verify after {length}: the cache has room for {program.context}; "
                "decode them one by one"
            )
            raise BadInput(message)

    def add(self, ids: Sequence[int], user: int) -> None:
        """Store the ids of a user's new verification pass, replacing the ids of the last pass."""
        self._by_user[user] = list(ids)

    def keep(self, tokens: int, user: int) -> int:
        """Return the id after the first ``tokens`` tokens of a user's last verification pass.

        The ids of the pass are then removed.

        Raises:
            BadInput: ``tokens`` is less than 1 or exceeds the number of tokens in the pass, or this
                method was already called after the pass.
        """
        max_tokens, ids = self._program.verify_tokens, self._by_user.get(user)
        if ids is None or not 1 <= tokens <= max_tokens:
            message = f"{tokens} tokens of user {user} to keep: give 1 to {max_tokens}, once after each pass"
            raise BadInput(message)
        del self._by_user[user]
        return ids[tokens - 1]
