"""Number of users whose KV caches fit in a compiled Program."""

from __future__ import annotations

from typing import NamedTuple

from wse.program.program import Program


class CacheCapacity(NamedTuple):
    """KV-cache capacity of the pipeline stage that limits the number of users.

    The tokens of a cache are distributed over the stage's PE rows. Storage is allocated in blocks
    of one token per row, so a cache of n tokens needs ceil(n / block_tokens) blocks.

    Attributes:
        tokens: Maximum number of tokens summed over all users, a multiple of ``block_tokens``.
        block_tokens: Number of tokens per block, which equals the stage's row count.
    """

    tokens: int
    block_tokens: int

    def users(self, context: int) -> int:
        """Return how many users fit if each of them has a KV cache of ``context`` tokens."""
        return self.tokens // (-(-context // self.block_tokens) * self.block_tokens)


def cache_capacity(program: Program, context: int) -> CacheCapacity:
    """Return how many KV-cache tokens fit in SRAM alongside the weights and buffers of a pass.

    Args:
        program: The compiled model. A stage without a cache does not limit the number of users.
        context: Number of tokens in each cache, which determines the stage that limits the number
            of users.
    """
    capacities = [
        CacheCapacity(max(0, room) * slots * program.batch // cache * stage.rect.rows, stage.rect.rows)
        for stage, slots, (cache, room) in zip(
            program.stages, program.cache_slots(program.context), program.cache_bytes(), strict=True
        )
        if cache
    ]
    return min(capacities, key=lambda capacity: capacity.users(context))


def users_at(program: Program, context: int) -> int:
    """Return the number of users whose KV caches fit in SRAM alongside the weights and buffers.

    Args:
        program: The compiled model.
        context: Number of tokens in each user's cache.
    """
    return cache_capacity(program, context).users(context)
