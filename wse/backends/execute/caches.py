"""Cache counters of all users, for an engine and for a process that mirrors it."""

from __future__ import annotations

from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Slots
from wse_mappings.cuts.cache_balance import CacheBalance


class Caches:
    """KV cache counters of all users: how many tokens each row of PEs stores.

    Attributes:
        by_user: For each user, the counters, keyed by the row count of a region. Regions with
            different row counts distribute the tokens differently.
    """

    def __init__(self, program: Program) -> None:
        self._heights = [stage.rect.rows for stage in program.stages]
        heights = dict.fromkeys(self._heights)
        self.by_user = [{rows: CacheBalance(rows, program.context) for rows in heights} for _ in range(program.batch)]

    def slots(self, user: int) -> Slots:
        """Return how many cache slots a user occupies on the fullest row of PEs of each stage.

        A cache slot holds the keys and values of one token.
        """
        return tuple(self.by_user[user][rows].slots for rows in self._heights)

    def length(self, user: int) -> int:
        """Return the number of tokens in a user's cache."""
        return self.by_user[user][self._heights[0]].length

    def append(self, phase: Phase) -> None:
        """Add the tokens of a phase to the cache counters of its users, when the phase begins.

        Args:
            phase: A prefill chunk, a decode pass or a verification pass.
        """
        for cache in (cache for by_rows in self._caches_of(phase) for cache in by_rows.values()):
            if phase.name == "prefill":
                cache.append_chunk(phase.tokens, replicated=not phase.on_mesh)
            elif phase.name == "verify":
                cache.append_each(phase.tokens)
            else:
                cache.append_one()

    def take_back(self, user: int, tokens: int) -> None:
        """Remove the last tokens of a user from the counters, such as rejected draft tokens.

        Args:
            user: Index of the user.
            tokens: Number of tokens to remove.
        """
        for cache in self.by_user[user].values():
            cache.take_back(tokens)

    def _caches_of(self, phase: Phase) -> list[dict[int, CacheBalance]]:
        """Return the counters that a phase changes: one user's counters, or all users' for decode.

        Returns:
            For each of these users, the counters, keyed by the row count of a region.
        """
        return self.by_user if phase.user < 0 else [self.by_user[phase.user]]
