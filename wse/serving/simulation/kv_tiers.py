"""Tiers: memories outside the KV cache that store the caches of prefixes for later prompts.

A block of a prefix that must leave the KV cache is *parked* in the first tier. If a tier is full,
the block that was parked there first moves to the next tier, and from the last tier it is deleted.
A block is in the KV cache or in one tier, never in both.

Blocks are copied to the tiers while the machine computes, and over the other direction of the links
than loads, as in vLLM's OffloadingConnector. Copies therefore take no time in the simulation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass


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
    """

    name: str
    capacity_tokens: int
    s_per_token: float
    latency_s: float


class ParkedBlocks:
    """Blocks of prompt prefixes that were removed from the KV cache and stored in other memories.

    These memories are called tiers. If a tier is full, its oldest block moves to the next tier.

    Attributes:
        tiers: The tiers, from the first to the last.
        parked_tokens: Number of tokens that were copied to each tier.
    """

    def __init__(self, tiers: Sequence[KvTier]) -> None:
        """Start with empty tiers."""
        self.tiers = tuple(tiers)
        self.parked_tokens = [0] * len(self.tiers)
        self._blocks: list[OrderedDict[int, int]] = [OrderedDict() for _ in self.tiers]  # block: tokens
        self._free_tokens = [tier.capacity_tokens for tier in self.tiers]

    def tier_of(self, block: int) -> int | None:
        """Return the index of the tier that stores a block; None if the block is in no tier."""
        return next((tier for tier, blocks in enumerate(self._blocks) if block in blocks), None)

    def park(self, block: int, tokens: int) -> None:
        """Store a block in the first tier, and move blocks to later tiers to make room.

        A tier that is smaller than a block is skipped.

        Args:
            block: Index of a block that is in no tier.
            tokens: Number of tokens in the block.
        """
        moving = [(block, tokens)]
        for tier, blocks in enumerate(self._blocks):
            skipped = [entry for entry in moving if entry[1] > self.tiers[tier].capacity_tokens]
            for moving_block, moving_tokens in moving:
                if moving_tokens <= self.tiers[tier].capacity_tokens:
                    blocks[moving_block] = moving_tokens
                    self._free_tokens[tier] -= moving_tokens
                    self.parked_tokens[tier] += moving_tokens
            moving = skipped
            while self._free_tokens[tier] < 0:
                moving.append(blocks.popitem(last=False))
                self._free_tokens[tier] += moving[-1][1]

    def remove(self, block: int) -> None:
        """Remove a block from its tier, if any, because the KV cache has it again."""
        tier = self.tier_of(block)
        if tier is not None:
            self._free_tokens[tier] += self._blocks[tier].pop(block)
