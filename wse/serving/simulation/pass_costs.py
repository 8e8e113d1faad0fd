"""PassCosts: what a simulation of serving asks of a machine, be it wafers or GPUs: seconds of its passes, and room.

A *round* is the time from the begin of one decode pass of every user in flight to the begin of their next. With one
stage it is one pass; where stages form a pipeline, users are streams in transit through it, and a round is as long as
each of them takes to come around. Pieces of prompts may be read in a round beside the tokens that are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Piece(NamedTuple):
    """A piece of a prompt: so many tokens, after so many of the same user that are in the cache.

    ``ends``: whether the prompt ends with it, so that it gives the first token of the answer.
    """

    tokens: int
    context: int
    ends: bool = True


class PassCosts(Protocol):
    """The costs of passes on a machine, and the room that it has.

    Attributes:
        kv_capacity_tokens: Tokens of all users together that KV caches have room for.
        kv_block_tokens: Tokens of a block of the cache; a block of a prefix belongs to all requests that share it.
        most_users: Users whose passes are known; no more are taken in.
        chunk_tokens: Tokens of a prompt that are read at once; pieces but the last of a prompt are multiples of it.
        contexts: Grid of contexts, rising from 0 to the longest; between two of them costs are interpolated.
        host_s: Seconds that a request takes to the machine, and its tokens back to their reader, together.
        prompts_fill_gaps: Whether a stage that waits for decoded tokens can read prompts meanwhile, as those of a
            pipeline can. On other machines a piece of a prompt is a part of a pass and ends with it.
    """

    @property
    def kv_capacity_tokens(self) -> int: ...
    @property
    def kv_block_tokens(self) -> int: ...
    @property
    def most_users(self) -> int: ...
    @property
    def chunk_tokens(self) -> int: ...
    @property
    def contexts(self) -> tuple[int, ...]: ...
    @property
    def host_s(self) -> float: ...
    @property
    def prompts_fill_gaps(self) -> bool: ...

    def room_tokens(self, tokens: int) -> int:
        """Return the part of `kv_capacity_tokens` that a cache of some tokens needs; it does not fall with tokens.

        Blocks are whole. Where windows forget tokens, a cache needs less room than it has had tokens.
        """
        ...

    def round_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Seconds of a round with a token of each of ``users`` after ``context`` others on average, and prompts."""
        ...

    def work_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Return the seconds of such a round in which the slowest stage works.

        The round itself where there is one stage.
        """
        ...

    def drain_s(self, piece: Piece) -> float:
        """Seconds from the end of a round to the first token of the prompt whose last piece was read in it."""
        ...

    def piece_busy_s(self, piece: Piece) -> float:
        """Return the seconds of the slowest stage's work for a piece of a prompt, with nothing beside it."""
        ...


def users_that_fit(costs: PassCosts, tokens: int) -> int:
    """Return the users of some tokens each that can be in flight: their caches fit, and passes take as many."""
    return min(costs.most_users, costs.kv_capacity_tokens // costs.room_tokens(tokens))
