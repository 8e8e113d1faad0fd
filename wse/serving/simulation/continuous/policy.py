"""Policy of a machine with continuous batching."""

from __future__ import annotations

from dataclasses import dataclass

from wse.serving.simulation.kv.kv_tiers import KvTier


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousPolicy:
    """Rules that determine how continuous batching admits users and reads prompts.

    Attributes:
        max_users: Number of batch slots: maximum number of admitted users.
        prompt_tokens: Maximum number of prompt tokens that are read per round (one decode pass of
            each user), rounded down to whole chunks. With None, prompts are read in the time when
            the busiest pipeline stage has no decode work.
        prefix_cache: Whether prefixes of prompts stay in the cache for later requests.
        kv_tiers: Memories (tiers) that store prefixes for which the KV cache has no room, in the
            order in which they are filled.
    """

    max_users: int
    prompt_tokens: int | None
    prefix_cache: bool = False
    kv_tiers: tuple[KvTier, ...] = ()
