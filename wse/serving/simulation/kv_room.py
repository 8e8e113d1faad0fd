"""KvRoom: a machine's capacity for KV caches, including prefixes kept for later prompts.

A request reserves space for its prompt and its whole answer when it is admitted
(`PassCosts.room_tokens`). It is therefore never interrupted. A request that finds its prefix in the
cache reserves space only for the tokens after the prefix.

The prefix of a prompt stays in the cache until its space is needed. The least recently used prefix
is removed first. A prompt that arrives while its prefix is still being read for another prompt also
reads the prefix.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

from wse.serving.simulation.pass_costs import PassCosts
from wse.serving.simulation.workload import NO_PREFIX, Workload


class KvRoom:
    """Allocation of the KV cache of a simulated machine, in tokens.

    Attributes:
        free: Number of additional tokens that fit.
        hits: Number of requests that found the prefix of their prompt in the cache.
        saved_tokens: Number of prompt tokens that did not have to be read.
    """

    def __init__(self, workload: Workload, costs: PassCosts, *, prefix_cache: bool) -> None:
        """Create an empty cache.

        Args:
            workload: Requests with their lengths and prefixes.
            costs: Capacity of the machine.
            prefix_cache: Whether prefixes of prompts stay in the cache for later requests.
        """
        self.free = costs.kv_capacity_tokens
        self.hits = self.saved_tokens = 0
        self._block, self._keeps = costs.kv_block_tokens, prefix_cache
        self._room_tokens = cache(costs.room_tokens)
        self._tokens: list[int] = (workload.prompt_tokens + workload.new_tokens).tolist()
        self._prefixes: list[int] = workload.prefix.tolist()
        self._prefix_tokens: list[int] = workload.prefix_tokens.tolist()
        self._room_of: dict[int, int] = {}  # request: its space, without its cached prefix
        self._cached_tokens: OrderedDict[int, int] = OrderedDict()  # prefix: its tokens, least recently used first
        self._users_of: dict[int, int] = {}  # cached prefix: number of requests that use it
        self._idle_room = 0  # space of cached prefixes that no request uses
        self._prefix_users: set[int] = set()  # requests that use a cached prefix

    def fits(self, request: int) -> bool:
        """Return whether a request fits, after removing unused prefixes if necessary."""
        prefix = self._hit(request)
        own_idle = (
            0 if prefix == NO_PREFIX or self._users_of[prefix] else self._room_tokens(self._cached_tokens[prefix])
        )
        return self._need(request) <= self.free + self._idle_room - own_idle

    def take(self, request: int) -> int:
        """Reserve space for a request, and return how many tokens of its prompt are cached.

        The request must fit. If necessary, unused prefixes are removed, least recently used first.
        """
        prefix, need = self._hit(request), self._need(request)
        if prefix != NO_PREFIX:
            if not self._users_of[prefix]:
                self._idle_room -= self._room_tokens(self._cached_tokens[prefix])
            self._users_of[prefix] += 1
            self._cached_tokens.move_to_end(prefix)
            self._prefix_users.add(request)
        while need > self.free:
            oldest = next(cached_prefix for cached_prefix in self._cached_tokens if not self._users_of[cached_prefix])
            room = self._room_tokens(self._cached_tokens.pop(oldest))
            self._idle_room -= room
            self.free += room
            del self._users_of[oldest]
        self.free -= need
        self._room_of[request] = need
        if prefix == NO_PREFIX:
            return 0
        self.hits += 1
        self.saved_tokens += self._cached_tokens[prefix]
        return self._cached_tokens[prefix]

    def keep_prefix(self, request: int) -> None:
        """Keep a prompt's prefix in the cache for later requests once it has been read.

        From then on, the prefix does not count towards the request's space.
        """
        prefix, tokens = self._prefixes[request], self._prefix_tokens[request]
        if not self._keeps or prefix == NO_PREFIX or prefix in self._cached_tokens or not tokens // self._block:
            return
        self._cached_tokens[prefix] = tokens // self._block * self._block  # whole blocks can be shared
        self._room_of[request] -= self._room_tokens(self._cached_tokens[prefix])
        self._users_of[prefix] = 1
        self._prefix_users.add(request)

    def give_back(self, request: int) -> None:
        """Free a request's space. A prefix that later requests may share stays in the cache."""
        if request in self._prefix_users:
            self._prefix_users.remove(request)
            prefix = self._prefixes[request]
            self._users_of[prefix] -= 1
            if not self._users_of[prefix]:
                self._idle_room += self._room_tokens(self._cached_tokens[prefix])
        self.free += self._room_of.pop(request)

    def _hit(self, request: int) -> int:
        """Return the index of a prompt's prefix if the prefix is in the KV cache, or NO_PREFIX."""
        prefix = self._prefixes[request]
        return prefix if self._keeps and prefix in self._cached_tokens else NO_PREFIX

    def _need(self, request: int) -> int:
        """Return how many tokens of space a request needs in addition to its cached prefix."""
        return self._room_tokens(self._tokens[request] - self._cached_tokens.get(self._hit(request), 0))
