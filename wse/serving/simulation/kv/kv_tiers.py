"""Tiers: memories outside the KV cache that store the caches of prefixes for later prompts.

A block of a prefix that must leave the KV cache is *parked* in the first tier. If a tier is full,
the block that was parked there first moves to the next tier, and from the last tier it is deleted.
A block is in the KV cache or in one tier, never in both. States of linear attention (`KeptStates`)
are parked in the same way.

Blocks are copied to the tiers while the machine computes, and over the other direction of the links
than loads, as in vLLM's OffloadingConnector. Copies therefore take no time in the simulation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

CACHED: Final = -1
"""Place of a block or state that the machine itself stores, instead of the index of a tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTier:
    """A memory outside the KV cache that stores blocks of prompt prefixes, and its link.

    Blocks are stored here if the KV cache has no room for them, and loaded for later prompts.

    Attributes:
        name: Name of the tier.
        capacity_tokens: Number of tokens whose keys and values fit.
        s_per_token: Seconds that the cache of one token occupies the link. Loads from the same tier
            are sequential.
        latency_s: Time in seconds after which the first byte of a load arrives.
        state_tokens: Number of tokens that need as much memory as a state of linear attention; 0
            for models without.
        s_per_state: Seconds that a state occupies the link.
    """

    name: str
    capacity_tokens: int
    s_per_token: float
    latency_s: float
    state_tokens: int = 0
    s_per_state: float = 0.0


class ParkedBlocks:
    """Blocks of prompt prefixes that were removed from the KV cache and stored in other memories.

    These memories are called tiers. If a tier is full, its oldest block moves to the next tier.

    Attributes:
        tiers: The tiers, from the first to the last.
        parked_tokens: Number of tokens that were copied to each tier. A state counts as the number
            of tokens that need as much memory.
    """

    def __init__(self, tiers: Sequence[KvTier]) -> None:
        """Start with empty tiers."""
        self.tiers = tuple(tiers)
        self.parked_tokens = [0] * len(self.tiers)
        self._entries: list[OrderedDict[Hashable, int]] = [OrderedDict() for _ in self.tiers]  # entry: tokens
        self._free_tokens = [tier.capacity_tokens for tier in self.tiers]

    def tier_of(self, entry: Hashable) -> int | None:
        """Return the index of the tier that stores a block or state; None if it is in no tier."""
        return next((tier for tier, entries in enumerate(self._entries) if entry in entries), None)

    def park_state(self, block: int) -> None:
        """Store the state at the end of a block, like a block of the same size."""
        if self.tiers:
            self.remove(state_at(block))
            self.park(state_at(block), self.tiers[0].state_tokens)

    def park(self, entry: Hashable, tokens: int) -> None:
        """Store a block in the first tier, and move blocks to later tiers to make room.

        A tier that is smaller than a block is skipped.

        Args:
            entry: Index of a block, or a state (`state_at`), that is in no tier.
            tokens: Number of tokens in the block, or that need as much memory as the state.
        """
        moving = [(entry, tokens)]
        for tier, entries in enumerate(self._entries):
            skipped = [part for part in moving if part[1] > self.tiers[tier].capacity_tokens]
            for moving_entry, moving_tokens in moving:
                if moving_tokens <= self.tiers[tier].capacity_tokens:
                    entries[moving_entry] = moving_tokens
                    self._free_tokens[tier] -= moving_tokens
                    self.parked_tokens[tier] += moving_tokens
            moving = skipped
            while self._free_tokens[tier] < 0:
                moving.append(entries.popitem(last=False))
                self._free_tokens[tier] += moving[-1][1]

    def remove(self, entry: Hashable) -> None:
        """Remove a block or state from its tier, if any, because the machine has it again."""
        tier = self.tier_of(entry)
        if tier is not None:
            self._free_tokens[tier] += self._entries[tier].pop(entry)


def state_at(block: int) -> Hashable:
    """Return the name under which the state at the end of a block is parked."""
    return "state", block
