"""KvRoom: the tokens of KV cache that are free, and prefixes that stay there for later prompts.

A request takes room for its prompt and its whole answer when it is admitted, so that nothing is ever put out again
half-way: `PassCosts.room_tokens`. One that finds its prefix takes room for the tokens behind that. A prefix that a
prompt brought stays behind as long as nobody needs its room; the one that was used last longest ago goes first. A
prompt that comes while its prefix is still being read reads it too.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

from wse.serving.simulation.pass_costs import PassCosts
from wse.serving.simulation.workload import NO_PREFIX, Workload


class KvRoom:
    """The room of a machine for caches.

    Attributes:
        free: Tokens of room that nothing is in.
        hits: Requests that found their prefix.
        saved_tokens: Tokens of prompts that were not read again.
    """

    def __init__(self, workload: Workload, costs: PassCosts, *, prefix_cache: bool) -> None:
        self.free = costs.kv_capacity_tokens
        self.hits = self.saved_tokens = 0
        self._block, self._keeps = costs.kv_block_tokens, prefix_cache
        self._room_tokens = cache(costs.room_tokens)
        self._tokens: list[int] = (workload.prompt_tokens + workload.new_tokens).tolist()
        self._prefixes: list[int] = workload.prefix.tolist()
        self._prefix_tokens: list[int] = workload.prefix_tokens.tolist()
        self._taken: dict[int, int] = {}  # by request: its room, without that of a prefix that is kept
        self._kept: OrderedDict[int, int] = OrderedDict()  # prefix: its tokens, the one used longest ago first
        self._users_of: dict[int, int] = {}  # of kept prefixes
        self._idle = 0  # room of kept prefixes that nobody uses
        self._shares: set[int] = set()  # requests that use a kept prefix

    def fits(self, request: int) -> bool:
        """Return whether there is room for a request, if need be in the place of prefixes that nobody uses."""
        prefix = self._hit(request)
        own_idle = 0 if prefix == NO_PREFIX or self._users_of[prefix] else self._room_tokens(self._kept[prefix])
        return self._need(request) <= self.free + self._idle - own_idle

    def take(self, request: int) -> int:
        """Take the room of a request that fits; the tokens of its prompt that are there already."""
        prefix, need = self._hit(request), self._need(request)
        if prefix != NO_PREFIX:
            if not self._users_of[prefix]:
                self._idle -= self._room_tokens(self._kept[prefix])
            self._users_of[prefix] += 1
            self._kept.move_to_end(prefix)
            self._shares.add(request)
        while need > self.free:
            oldest = next(other for other in self._kept if not self._users_of[other])
            room = self._room_tokens(self._kept.pop(oldest))
            self._idle -= room
            self.free += room
            del self._users_of[oldest]
        self.free -= need
        self._taken[request] = need
        if prefix == NO_PREFIX:
            return 0
        self.hits += 1
        self.saved_tokens += self._kept[prefix]
        return self._kept[prefix]

    def keep_prefix(self, request: int) -> None:
        """Keep the prefix of a prompt that was read, as a part of the room of its request until that leaves."""
        prefix, tokens = self._prefixes[request], self._prefix_tokens[request]
        if not self._keeps or prefix == NO_PREFIX or prefix in self._kept or not tokens // self._block:
            return
        self._kept[prefix] = tokens // self._block * self._block  # whole blocks can be shared
        self._taken[request] -= self._room_tokens(self._kept[prefix])
        self._users_of[prefix] = 1
        self._shares.add(request)

    def give_back(self, request: int) -> None:
        """Give back the room of a request, except for the prefix that stays."""
        if request in self._shares:
            self._shares.remove(request)
            prefix = self._prefixes[request]
            self._users_of[prefix] -= 1
            if not self._users_of[prefix]:
                self._idle += self._room_tokens(self._kept[prefix])
        self.free += self._taken.pop(request)

    def _hit(self, request: int) -> int:
        """Return the kept prefix that a request's prompt begins with."""
        prefix = self._prefixes[request]
        return prefix if self._keeps and prefix in self._kept else NO_PREFIX

    def _need(self, request: int) -> int:
        """Return the room of a request behind its prefix, if that is kept."""
        return self._room_tokens(self._tokens[request] - self._kept.get(self._hit(request), 0))
