"""PassCosts: what a simulation of serving asks of a machine, be it wafers or GPUs: seconds of its passes, and room.

A *round* is the time from the begin of one decode pass of every user in flight to the begin of their next. With one
stage it is one pass; where stages form a pipeline, users are streams on their way through it, and a round is as long as
each of them takes to come around. Pieces of prompts may be read in a round beside the tokens that are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

ContextUse = Literal["longest", "mean"]
"""The context that the cost of a decode pass goes by: that of the user with the longest cache, or their mean."""


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
        kv_block_tokens: A user's cache takes a multiple of so many.
        most_users: Users whose passes are known; no more are taken in.
        chunk_tokens: Tokens of a prompt that are read at once; pieces but the last of a prompt are multiples of it.
        contexts: Grid of contexts, rising from 0 to the longest; between two of them costs are interpolated.
        context_use: The context that decode passes go by.
        host_s: Seconds that a request takes to the machine, and its tokens back to their reader, together.
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
    def context_use(self) -> ContextUse: ...
    @property
    def host_s(self) -> float: ...

    def round_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Seconds of a round with a token of each of ``users`` after ``context`` others, and pieces of prompts."""
        ...

    def work_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Seconds of such a round in which the slowest stage works; the round itself where there is one stage."""
        ...

    def drain_s(self, piece: Piece) -> float:
        """Seconds from the end of a round to the first token of the prompt whose last piece was read in it."""
        ...
