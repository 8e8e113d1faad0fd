"""PrefixUse: how many prompt tokens a machine did not read, and where it found them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUse:
    """Reuse of stored prefixes of prompts by a simulated machine, summed over all requests.

    A machine does not process the tokens of a prompt's start again if it still stores their keys
    and values, in its KV cache or in a tier (a memory outside the KV cache).

    Attributes:
        hits: Number of prompts of which at least the first block was reused.
        cached_tokens: Number of prompt tokens that were found in the KV cache.
        loaded_tokens: For each tier, the number of prompt tokens that were loaded from it.
        parked_tokens: For each tier, the number of tokens that were copied to it.
        known_tokens: Number of prompt tokens that the same machine had processed before, as part
            of an earlier prompt.
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
        """Number of prompt tokens that the machine processed more than once.

        The keys and values of these tokens were no longer stored, or loading them from a tier would
        have taken longer.
        """
        return self.known_tokens - self.saved_tokens

    @staticmethod
    def total(uses: Iterable[PrefixUse]) -> PrefixUse:
        """Add up the counts of one or more machines, all of which have the same tiers.

        A tier is a memory outside the KV cache.
        """
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
