"""Policies of a machine with continuous batching and of a separate machine for prompts."""

from __future__ import annotations

from dataclasses import dataclass

from wse.serving.simulation.pass_costs import PassCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousPolicy:
    """Rules that determine how continuous batching admits users and reads prompts.

    Attributes:
        max_users: Number of batch slots: maximum number of admitted users.
        prompt_tokens: Maximum number of prompt tokens per round, rounded down to whole chunks. With
            None, prompts are read in the time when the busiest stage has no decode work.
        prefix_cache: Whether prefixes of prompts stay in the cache for later requests.
    """

    max_users: int
    prompt_tokens: int | None
    prefix_cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillMachine:
    """A separate machine that reads prompts one by one and sends their caches to the decoder.

    Attributes:
        costs: Pass times of the machine.
        transfer_s_per_token: Seconds that the cache of one token occupies the link to the decode
            machine. Caches are sent sequentially.
        transfer_s: Latency of the transfer in seconds.
    """

    costs: PassCosts
    transfer_s_per_token: float = 0.0
    transfer_s: float = 0.0
