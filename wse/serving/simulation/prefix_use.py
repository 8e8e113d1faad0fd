"""PrefixUse: how many prompt tokens a machine did not read, and where it found them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUse:
    """Numbers of prompts and prompt tokens whose prefix was found, summed over requests.

    Attributes:
        hits: Prompts of which at least the first block was in the KV cache or loaded from a tier.
        cached_tokens: Tokens that were in the KV cache.
        loaded_tokens: Tokens that were loaded from each tier.
        parked_tokens: Tokens that were copied to each tier.
        known_tokens: Tokens that the same machine had read before for another prompt.
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
        """Return the sum over several machines with the same tiers, at least one."""
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
