"""PrefixUse: how many prompt tokens a machine did not read, and where it found them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUse:
    """Use of a machine's prefix cache: counts of prompts and tokens, summed over all requests.

    A tier is a memory outside the KV cache that stores prefixes for later prompts.

    Attributes:
        hits: Number of prompts of which at least the first block was reused.
        cached_tokens: Prompt tokens that were found in the KV cache.
        loaded_tokens: Prompt tokens that were loaded from each tier.
        parked_tokens: Tokens that were copied to each tier.
        known_tokens: Prompt tokens that the same machine had already read for an earlier prompt.
    """

    hits: int = 0
    cached_tokens: int = 0
    loaded_tokens: tuple[int, ...] = ()
    parked_tokens: tuple[int, ...] = ()
    known_tokens: int = 0

    @property
    def saved_tokens(self) -> int:
        """Tokens that did not have to be read."""
        return self.cached_tokens + sum(self.loaded_tokens)

    @property
    def recomputed_tokens(self) -> int:
        """Tokens that were read again, because they were deleted or loading would take longer."""
        return self.known_tokens - self.saved_tokens

    @staticmethod
    def total(uses: Iterable[PrefixUse]) -> PrefixUse:
        """Add up the counts of one or more machines, which must have the same tiers."""
        all_uses = list(uses)
        return PrefixUse(
            hits=sum(use.hits for use in all_uses),
            cached_tokens=sum(use.cached_tokens for use in all_uses),
            loaded_tokens=tuple(map(sum, zip(*(use.loaded_tokens for use in all_uses), strict=True))),
            parked_tokens=tuple(map(sum, zip(*(use.parked_tokens for use in all_uses), strict=True))),
            known_tokens=sum(use.known_tokens for use in all_uses),
        )


NO_PREFIXES: Final = PrefixUse()
"""Use of a machine that keeps no prefixes."""
