"""PrefixLoads: transfers of parked prefixes from the tiers to the KV cache of a machine.

When a request is admitted, the blocks of its prompt that follow the cached ones are loaded from
their tiers if this takes less time than reading them. The rest of the prompt is read after the
load. Meanwhile, the machine reads other prompts and decodes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import groupby
from math import inf

from wse.serving.simulation.kv_room import KvRoom
from wse.serving.simulation.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.prefixes import PrefixUse


class PrefixLoads:
    """Loads of prompt prefixes from memory tiers into the KV cache of a machine.

    Tiers are memories that store blocks of prefixes for which the KV cache has no room. A request
    can load such blocks instead of reading their tokens again.

    Attributes:
        hits: Number of requests that loaded blocks and found no blocks in the KV cache.
        loaded_tokens: Number of tokens that were loaded from each tier.
    """

    def __init__(self, room: KvRoom, costs: PassCosts) -> None:
        """Start without loads.

        Args:
            room: KV cache of the machine, and the blocks in its tiers.
            costs: Times that the machine needs to read prompts.
        """
        self.hits = 0
        self.loaded_tokens = [0] * len(room.parked.tiers)
        self._room, self._costs = room, costs
        self._link_free_s = [-inf] * len(room.parked.tiers)
        self._loads: list[tuple[float, int, int]] = []  # heap of (end of the load, request, tokens in the cache)

    @property
    def next_s(self) -> float:
        """Time at which the next load ends; infinity if there is none."""
        return self._loads[0][0] if self._loads else inf

    @property
    def prefix_use(self) -> PrefixUse:
        """Counts so far of prompt tokens that were in the KV cache or loaded from tiers."""
        return PrefixUse(
            hits=self._room.hits + self.hits,
            cached_tokens=self._room.cached_tokens,
            loaded_tokens=tuple(self.loaded_tokens),
            parked_tokens=tuple(self._room.parked.parked_tokens),
            known_tokens=self._room.known_tokens,
        )

    def begin(self, request: int, cached_tokens: int, now_s: float) -> bool:
        """Start to load blocks of an admitted request's prefix, as far as this saves time.

        Blocks are loaded in the order of the prompt, and consecutive blocks of a tier together. The
        load stops at the first blocks that are in no tier, or for which a load takes at least as
        long as reading their tokens. The machine reads the rest of the prompt. The comparison does
        not include the time that reading waits for other prompts.

        Args:
            request: Index of the request.
            cached_tokens: Tokens of its prompt that are in the KV cache.
            now_s: Time at which the load can start.

        Returns:
            Whether any block is loaded.
        """
        room, tiers = self._room, self._room.parked.tiers
        tokens, end_s = cached_tokens, now_s
        for tier, blocks in groupby(room.uncached_blocks(request) if tiers else (), key=room.parked.tier_of):
            if tier is None:
                break
            count = room.tokens_until(list(blocks)[-1]) - tokens
            link_free_s = max(self._link_free_s[tier], now_s) + count * tiers[tier].s_per_token
            tier_end_s = max(end_s, link_free_s + tiers[tier].latency_s)
            if tier_end_s - end_s >= self._costs.part_busy_s(PromptPart(count, tokens, ends=False)):
                break
            self._link_free_s[tier], end_s = link_free_s, tier_end_s
            self.loaded_tokens[tier] += count
            tokens += count
        if tokens == cached_tokens:
            return False
        self.hits += not cached_tokens
        heappush(self._loads, (end_s, request, tokens))
        return True

    def pop(self) -> tuple[float, int, int]:
        """Remove the load that ends next.

        Returns:
            Time of its end, the request, and the tokens of its prompt that are then in the cache.
        """
        return heappop(self._loads)
