"""Policies of a machine with continuous batching, and of a separate machine for its prompts."""

from __future__ import annotations

from dataclasses import dataclass

from wse.serving.simulation.pass_costs import PassCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousPolicy:
    """The policy of continuous batching.

    Attributes:
        most_users: Seats: users that are admitted at a time.
        prompt_tokens: Tokens of prompts that are read in a round at most, rounded down to whole chunks; None: prompts
            fill the gaps of the slowest stage.
        prefix_cache: Whether prefixes of prompts stay in the cache.
    """

    most_users: int
    prompt_tokens: int | None
    prefix_cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillMachine:
    """A machine that reads prompts alone, one after another, and sends their caches on.

    Attributes:
        costs: Its passes.
        transfer_s_per_token: Seconds in which the cache of a token has the link to the machine that decodes, which
            sends one cache after another.
        transfer_s: Seconds until the first of it is there.
    """

    costs: PassCosts
    transfer_s_per_token: float = 0.0
    transfer_s: float = 0.0
