"""PrefixLoads: transfers of parked prefixes from the tiers to the KV cache of a machine.

When a request is admitted, the blocks of its prompt that follow the cached ones are loaded from
their tiers if this takes less time than reading them. The rest of the prompt is read after the
load. Meanwhile, the machine reads other prompts and decodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import NamedTuple

from wse.serving.simulation.costs.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.kv.kv_room import KvRoom
from wse.serving.simulation.kv.kv_tiers import CACHED
from wse.serving.simulation.kv.prefixes import PrefixUse


class _Part(NamedTuple):
    """Consecutive tokens of a prefix that are stored in the same place, CACHED or a tier."""

    place: int
    tokens: int


class PrefixLoads:
    """Loads of prompt prefixes from memory tiers into the KV cache of a machine.

    Tiers are memories that store blocks of prefixes for which the KV cache has no room. A request
    can load such blocks instead of reading their tokens again.

    Attributes:
        hits: Number of requests that loaded blocks or a state, and could not continue a prefix in the
            KV cache.
        cached_tokens: Number of tokens that were in the KV cache and useful only with a loaded state.
        loaded_tokens: Number of tokens that were loaded from each tier.
        loaded_states: Number of states of linear attention that were loaded from each tier.
    """

    def __init__(self, room: KvRoom, costs: PassCosts) -> None:
        """Start without loads.

        Args:
            room: KV cache of the machine, and the blocks in its tiers.
            costs: Times that the machine needs to read prompts.
        """
        self.hits = self.cached_tokens = 0
        self.loaded_tokens, self.loaded_states = ([0] * len(room.parked.tiers) for _ in range(2))
        self._room, self._costs = room, costs
        self._link_free_s = [-inf] * len(room.parked.tiers)
        self._loads: list[tuple[float, int, int]] = []  # heap of (end of the load, request, tokens in the cache)

    @property
    def next_s(self) -> float:
        """Time at which the next load ends; infinity if there is none."""
        return self._loads[0][0] if self._loads else inf

    @property
    def prefix_use(self) -> PrefixUse:
        """Numbers of prompt tokens that have been found in the KV cache or loaded from KV tiers so far."""
        return PrefixUse(
            hits=self._room.hits + self.hits,
            cached_tokens=self._room.cached_tokens + self.cached_tokens,
            loaded_tokens=tuple(self.loaded_tokens),
            loaded_states=tuple(self.loaded_states),
            parked_tokens=tuple(self._room.parked.parked_tokens),
            known_tokens=self._room.known_tokens,
        )

    def begin(self, request: int, cached_tokens: int, now_s: float) -> bool:
        """Start to load blocks of an admitted request's prefix, as far as this saves time.

        Blocks are loaded in the order of the prompt, and consecutive blocks of a tier together. The
        load stops at the first blocks that are in no tier, or for which a load takes at least as
        long as reading their tokens. The machine reads the rest of the prompt. The comparison does
        not include the time that reading waits for other prompts.

        With linear attention, blocks are loaded from each tier up to the last one whose state is
        stored, and this state is loaded too.

        Args:
            request: Index of the request.
            cached_tokens: Tokens of its prompt that are in the KV cache.
            now_s: Time at which the load can start.

        Returns:
            Whether any block is loaded.
        """
        room = self._room
        tokens = position = cached_tokens
        end_s, parts = now_s, list[_Part]()
        blocks_with_places = room.unread_blocks(request) if room.parked.tiers else []
        for place, group in groupby(blocks_with_places, key=itemgetter(1)):
            if place is None:
                break
            blocks = [block for block, _ in group]
            stops = [(block, at) for block in blocks if (at := room.state_place(block)) is not None]
            if stops:
                stop, state_place = stops[-1]
                count = room.tokens_until(stop) - tokens
                parts.append(_Part(place, room.tokens_until(stop) - position))
                link_free_s, tier_end_s = self._times(parts, state_place, now_s, end_s)
                if tier_end_s - end_s >= self._costs.part_busy_s(PromptPart(count, tokens, ends=False)):
                    break
                self._count(parts, state_place)
                self._link_free_s, end_s, parts = link_free_s, tier_end_s, []
                tokens = position = tokens + count
            if not stops or blocks[-1] != stops[-1][0]:
                parts.append(_Part(place, room.tokens_until(blocks[-1]) - position))
                position = room.tokens_until(blocks[-1])
        if tokens == cached_tokens:
            return False
        self.hits += not cached_tokens
        heappush(self._loads, (end_s, request, tokens))
        return True

    def _times(self, parts: Sequence[_Part], state_place: int, now_s: float, end_s: float) -> tuple[list[float], float]:
        """Return when each link is free after loading some parts and a state, and the end of the load.

        Args:
            parts: Parts of a prefix; those in the KV cache take no time.
            state_place: Tier of the state, or CACHED if none is loaded.
            now_s: Time at which the load can start.
            end_s: Time at which the parts before are loaded.
        """
        tiers, link_free_s = self._room.parked.tiers, list(self._link_free_s)
        loads = [(part.place, part.tokens * tiers[part.place].s_per_token) for part in parts if part.place != CACHED]
        if state_place != CACHED:
            loads.append((state_place, tiers[state_place].s_per_state))
        for place, seconds in loads:
            link_free_s[place] = max(link_free_s[place], now_s) + seconds
            end_s = max(end_s, link_free_s[place] + tiers[place].latency_s)
        return link_free_s, end_s

    def _count(self, parts: Sequence[_Part], state_place: int) -> None:
        """Count the tokens of loaded parts, and a state."""
        for part in parts:
            if part.place == CACHED:
                self.cached_tokens += part.tokens
            else:
                self.loaded_tokens[part.place] += part.tokens
        if state_place != CACHED:
            self.loaded_states[state_place] += 1

    def pop(self) -> tuple[float, int, int]:
        """Remove the load that ends next.

        Returns:
            Time of its end, the request, and the tokens of its prompt that are then in the cache.
        """
        return heappop(self._loads)

    def remove(self, request: int) -> bool:
        """Ignore the load of a request, which still occupies its link. Return whether there was one."""
        loads = [load for load in self._loads if load[1] != request]
        is_loading = len(loads) < len(self._loads)
        self._loads = loads
        heapify(self._loads)
        return is_loading
