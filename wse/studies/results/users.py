"""The users whose KV caches a Program has room for."""

from __future__ import annotations

from typing import NamedTuple

from wse.program.program import Program


class CacheCapacity(NamedTuple):
    """The room for KV caches on the stage where it is shortest.

    A cache of n tokens takes ceil(n / block_tokens) blocks, for the tokens are spread over the rows of the stage.

    Attributes:
        tokens: Tokens of all users together that caches have room for, a multiple of the block.
        block_tokens: Tokens of one cache slot on every row of the stage.
    """

    tokens: int
    block_tokens: int

    def users(self, context: int) -> int:
        """Return the users whose caches of some tokens fit."""
        return self.tokens // (-(-context // self.block_tokens) * self.block_tokens)


def cache_capacity(program: Program, context: int) -> CacheCapacity:
    """Return the room for caches beside what one pass of the Program needs.

    Args:
        program: The compiled model. A stage without a cache fits any number of users.
        context: Tokens of each cache; which stage is the shortest depends on it.
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
    """Return the users whose caches of some tokens fit beside what one pass of the Program needs."""
    return cache_capacity(program, context).users(context)
