"""PassCosts: what a simulation needs to know about a machine: its pass times and KV capacity.

A *round* is the time from the start of one decode pass of every user in flight to the start of
their next pass. With one stage, a round is one pass. In a pipeline of stages, users are streams in
transit, and a round lasts until each stream has come around. Parts of prompts may be read in a
round in addition to the decoded tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class PromptPart(NamedTuple):
    """Part of a prompt: the prompt tokens that are read in one round.

    A round is the time in which every user in flight gets one decode pass.

    Attributes:
        tokens: Number of tokens in the part.
        context: Tokens of the same user that are already in the KV cache.
        ends: Whether the part is the end of the prompt and hence yields the first token of the
            answer.
    """

    tokens: int
    context: int
    ends: bool = True


class PassCosts(Protocol):
    """Pass times and KV cache capacity of a machine.

    Attributes:
        kv_capacity_tokens: Total number of tokens, over all users, that fit in the KV caches.
        kv_block_tokens: Tokens per block of the cache. Requests with a common prefix share the
            blocks that the prefix fills.
        reused_tokens_multiple: Only multiples of this many tokens of a prefix are reused: 1 if a
            machine copies the tokens of a block that the prefix fills in part, or the block size.
        max_states: Maximum number of states of linear attention, of users and of kept prefixes;
            None for models without linear attention. A state also needs ``room_tokens(0)`` space.
        max_users: Maximum number of users for which pass times are known. No more are admitted.
        chunk_tokens: Granularity of the parts of a prompt: all parts except the last consist of a
            multiple of this many tokens.
        contexts: Context lengths between which times are interpolated, ascending from 0 to the
            longest.
        host_s: Seconds that a request needs to reach the machine, plus the seconds that its tokens
            need to reach their reader.
    """

    @property
    def kv_capacity_tokens(self) -> int: ...
    @property
    def kv_block_tokens(self) -> int: ...
    @property
    def reused_tokens_multiple(self) -> int: ...
    @property
    def max_states(self) -> int | None: ...
    @property
    def max_users(self) -> int: ...
    @property
    def chunk_tokens(self) -> int: ...
    @property
    def contexts(self) -> tuple[int, ...]: ...
    @property
    def host_s(self) -> float: ...

    def room_tokens(self, tokens: int) -> int:
        """Return the space that the KV cache of a request needs, as a number of tokens.

        The result can be compared with `kv_capacity_tokens`. Caches are allocated in whole blocks,
        and layers with a sliding window need less space than the request has tokens. The result
        never falls when ``tokens`` rises.

        Args:
            tokens: Number of tokens in the request.
        """
        ...

    def round_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return the duration in seconds of a round, in which parts of prompts may be read.

        In a round, each user gets one decode pass.

        Args:
            users: Number of users that decode.
            context: Mean number of tokens in a user's cache.
            parts: Prompt parts that are read in the round.
        """
        ...

    def work_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return how long the busiest pipeline stage works in a round, in seconds.

        In a round, each user gets one decode pass. On a machine with a single stage, the result is
        the duration of the round. The arguments are the same as for `round_s`.
        """
        ...

    def drain_s(self, part: PromptPart) -> float:
        """Return the seconds from the last round of a prompt to the first token of its answer.

        In a round, each user gets one decode pass, and parts of prompts are read. In a pipeline,
        the end of the prompt must still pass the remaining stages when the round has ended.

        Args:
            part: The part of the prompt that is read in its last round.
        """
        ...

    def part_busy_s(self, part: PromptPart) -> float:
        """Return how long the busiest pipeline stage works on one part of a prompt, in seconds."""
        ...


def users_that_fit(costs: PassCosts, tokens: int, prefix_tokens: int = 0) -> int:
    """Return the maximum number of users in flight, if all of them have the same number of tokens.

    It is limited by the capacity of the KV caches and by the number of users for which pass times
    are known.

    Args:
        costs: Times and capacity of the machine.
        tokens: Number of tokens per user, including the prefix.
        prefix_tokens: Tokens at the start of every prompt, whose whole blocks all users share.
    """
    shared_tokens = prefix_tokens // costs.kv_block_tokens * costs.kv_block_tokens
    room = costs.kv_capacity_tokens - (costs.room_tokens(shared_tokens) if shared_tokens else 0)
    return min(costs.max_users, max(0, room) // costs.room_tokens(tokens - shared_tokens))
