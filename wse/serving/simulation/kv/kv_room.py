"""KvRoom: a machine's capacity for KV caches, including prefixes kept for later prompts.

A request reserves space for its prompt and its whole answer when it is admitted
(`PassCosts.room_tokens`). It is therefore never interrupted. A request that finds the first blocks
of its prompt in the cache reserves space only for the tokens after these blocks.

There are two kinds of blocks. A *block* is part of a prompt (`PrefixTree`). A *machine block* is a
unit of the cache (``kv_block_tokens``). If a prefix ends within a machine block, other requests
cannot share this machine block, because they continue in different ways. They copy its tokens into
a machine block of their own, so these tokens are not prefilled again, but are stored twice.

The blocks of a prompt's prefix stay in the cache until their space is needed. The block that has
been unused for the longest time is removed first, and of the blocks of one prompt the last one. A
block is therefore never removed before the blocks that follow it. A prompt that arrives while its
prefix is still being read for another prompt also reads the prefix, and then shares the other
prompt's blocks. Blocks that are removed are parked in the tiers (`ParkedBlocks`), if there are any.

With linear attention, a prompt can continue only at the end of a block whose state was kept
(`KeptStates`). It shares all cached blocks of its prefix, but tokens after the last such block are
prefilled again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache

from wse.serving.simulation.costs.pass_costs import PassCosts
from wse.serving.simulation.kv.kept_states import KeptStates
from wse.serving.simulation.kv.kv_tiers import CACHED, KvTier, ParkedBlocks, state_at
from wse.serving.simulation.kv.prefixes import NO_PREFIX, path_to
from wse.serving.simulation.workload import Workload


class KvRoom:
    """Allocation of the KV cache of a simulated machine, in tokens.

    The prefix of a prompt consists of blocks of tokens. They stay in the cache for later prompts
    with the same prefix until their space is needed.

    Attributes:
        free: Number of tokens that still fit.
        parked: Blocks that were removed from the cache and stored in other memories (tiers).
        hits: Number of requests that found at least the first block of their prompt in the cache.
        cached_tokens: Number of prompt tokens that were in the cache.
        known_tokens: Number of prompt tokens that had been read before for another prompt.
    """

    def __init__(
        self, workload: Workload, costs: PassCosts, *, prefix_cache: bool, kv_tiers: Sequence[KvTier] = ()
    ) -> None:
        """Create an empty cache.

        Args:
            workload: Requests with their lengths and prefixes.
            costs: Capacity of the machine.
            prefix_cache: Whether prefixes of prompts stay in the cache for later requests.
            kv_tiers: Memories (tiers) that store prefixes for which the cache has no room.
        """
        self.free = self._capacity = costs.kv_capacity_tokens
        self.hits = self.cached_tokens = self.known_tokens = 0
        self.parked = ParkedBlocks(kv_tiers)
        self._states = KeptStates(costs.max_states, costs.room_tokens(0))
        self._known_blocks: set[int] = set()  # all blocks that have been read
        self._room_tokens = cache(costs.room_tokens)
        self._tokens: list[int] = (workload.prompt_tokens + workload.new_tokens).tolist()
        self._keeps_prefixes = prefix_cache
        self._parents: list[int] = workload.prefix_tree.parent.tolist()
        self._prefixes: list[int] = workload.prefix.tolist()
        self._machine_block, self._multiple = costs.kv_block_tokens, costs.reused_tokens_multiple
        self._end_tokens = workload.prefix_tree.reusable_tokens(self._multiple)
        self._block_rooms: dict[int, int] = {}  # cached block: its space in addition to the blocks before it
        self._room_of: dict[int, int] = {}  # request: its space, without the blocks that it shares
        self._paths: dict[int, list[int]] = {}  # request: the blocks of its prefix
        self._shared_counts: dict[int, int] = {}  # admitted request: how many of these blocks it shares
        self._reused_counts: dict[int, int] = {}  # admitted request: after how many of these blocks it continued
        self._users_of: dict[int, int] = {}  # cached block: number of requests that use it
        self._idle_blocks: OrderedDict[int, None] = OrderedDict()  # cached blocks without users, in order of removal
        self._idle_room = 0  # space of these blocks

    @property
    def occupied(self) -> int:
        """Cache space that requests have reserved or that kept prefixes occupy, in tokens."""
        return self._capacity - self.free

    @property
    def reserved(self) -> int:
        """Cache space that requests have reserved, including the prefixes they share, in tokens."""
        return self.occupied - self._removable_room

    @property
    def _removable_room(self) -> int:
        """Space that removing unused blocks and kept states would free, in tokens."""
        return self._idle_room + self._states.room

    def extend(self, workload: Workload) -> None:
        """Append requests, which get the next indices.

        Args:
            workload: The new requests. Its tree of prefixes consists of the blocks that are new.
                Their indices follow those of all earlier blocks, also where they are parents.
        """
        self._parents += workload.prefix_tree.parent.tolist()
        self._end_tokens += workload.prefix_tree.reusable_tokens(self._multiple)
        self._tokens += (workload.prompt_tokens + workload.new_tokens).tolist()
        self._prefixes += workload.prefix.tolist()

    def fits(self, request: int) -> bool:
        """Return whether the KV cache has space for a request.

        Blocks of prefixes that no request uses count as free, because they can be removed.
        """
        return self._usable_hits(request) is not None

    def take(self, request: int) -> int:
        """Reserve cache space for a request, and return how many tokens of its prompt are cached.

        There must be enough space, for which unused blocks of prefixes are removed if necessary.

        Args:
            request: Index of the request.
        """
        path, hit_count = self._path(request), self._usable_hits(request) or 0
        need = self._need(request, hit_count)
        for block in path[:hit_count]:
            self._use(block)
        reused_count = next((n for n in range(hit_count, 0, -1) if self._states.can_continue_after(path[n - 1])), 0)
        if self._states.are_needed and reused_count:
            self._states.use(path[reused_count - 1])
        self._make_room(need)
        self.free -= need
        self._states.users += 1
        while self._states.excess > 0 and len(self._states):
            self._remove_state(self._states.oldest)
        self._room_of[request], self._shared_counts[request] = need, hit_count
        self._reused_counts[request] = reused_count
        cached_tokens = self._tokens_until(path, reused_count)
        self.hits += cached_tokens > 0
        self.cached_tokens += cached_tokens
        known_count = bisect_left(path, x=True, key=lambda block: block not in self._known_blocks)
        self.known_tokens += self._tokens_until(path, known_count)
        return cached_tokens

    def unread_blocks(self, request: int) -> list[tuple[int, int | None]]:
        """Return the blocks after the point at which an admitted request continued a kept prefix.

        Each block comes with the place where it is stored: CACHED, the index of a tier, or None. A
        prompt cannot continue after a cached block if the state at its end was not kept.
        """
        path, shared_count = self._path(request), self._shared_counts[request]
        places = [CACHED if n < shared_count else self.parked.tier_of(block) for n, block in enumerate(path)]
        return list(zip(path, places, strict=True))[self._reused_counts[request] :]

    def state_place(self, block: int) -> int | None:
        """Return where the state at the end of a block is stored: CACHED, a tier, or None.

        It is CACHED also if the model needs no states.
        """
        return CACHED if self._states.can_continue_after(block) else self.parked.tier_of(state_at(block))

    def tokens_until(self, block: int) -> int:
        """Return how many tokens of a prompt can be reused from its start to the end of a block."""
        return self._end_tokens[block]

    def keep_prefix(self, request: int) -> None:
        """Keep the prefix of a prompt in the cache for later requests, after it has been read.

        From then on, the prefix does not count as space of the request. Blocks that another request
        has stored in the meantime are not stored again.

        Args:
            request: Index of the request with the prompt.
        """
        path, shared_count = self._path(request), self._shared_counts[request]
        stored_count = self._hit_count(request)
        for block in path[shared_count:stored_count]:
            self._use(block)
        start_room = self._shared_room(path, stored_count)
        given_back = start_room - self._shared_room(path, shared_count)
        self._room_of[request] -= given_back
        self.free += given_back
        for block in path[stored_count:]:
            end_room = self._room_tokens(self._end_tokens[block])
            self._block_rooms[block] = end_room - start_room
            self._room_of[request] -= end_room - start_room
            self._users_of[block], start_room = 1, end_room
            self._known_blocks.add(block)
            self.parked.remove(block)
        self._shared_counts[request] = len(path)
        if path and self._states.are_needed:
            self._keep_state(path[-1])

    def give_back(self, request: int) -> None:
        """Free a request's space. Blocks that later requests may share stay in the cache."""
        path = self._paths.pop(request)
        for block in reversed(path[: self._shared_counts.pop(request)]):
            self._users_of[block] -= 1
            if not self._users_of[block]:
                self._idle_blocks[block] = None
                self._idle_room += self._block_rooms[block]
        self.free += self._room_of.pop(request)
        self._states.users -= 1
        del self._reused_counts[request]

    def _make_room(self, need: int) -> None:
        """Remove unused blocks, and then kept states, until there is space for ``need`` tokens."""
        while need > self.free and self._idle_blocks:
            oldest, _ = self._idle_blocks.popitem(last=False)
            del self._users_of[oldest]
            room = self._block_rooms.pop(oldest)
            self._idle_room -= room
            self.free += room
            self.parked.park(oldest, self._block_tokens(oldest))
            self._remove_state(oldest)
        while need > self.free:
            self._remove_state(self._states.oldest)

    def _keep_state(self, block: int) -> None:
        """Keep the state at the end of a block in use, if there is room after removing others.

        Otherwise, park it in the tiers.
        """
        if not self._states.can_continue_after(block):
            if self._states.excess == 0 and len(self._states):
                self._remove_state(self._states.oldest)
            need = self._states.state_room
            if self._states.excess >= 0 or need > self.free + self._removable_room:
                self.parked.park_state(block)
                return
            self._make_room(need)
            self.free -= need
            self.parked.remove(state_at(block))
        self._states.use(block)

    def _remove_state(self, block: int) -> None:
        """Remove the state at the end of a block, if it is kept, and park it in the tiers."""
        if self._states.remove(block):
            self.free += self._states.state_room
            self.parked.park_state(block)

    def _usable_hits(self, request: int) -> int | None:
        """Return how many cached blocks of its prefix a request reuses if it is admitted now.

        This is the largest number with which the request fits, after removing blocks that no
        request uses. To reuse fewer blocks can need less space, because a request stores some
        tokens itself even if it reuses them: those in its sliding windows, and those in a machine
        block (unit of the cache) that the prefix fills only in part.

        Returns:
            The number of blocks, or None if the request does not fit.
        """
        path, hit_count = self._path(request), self._hit_count(request)
        room = self.free + self._removable_room
        if self._need(request, hit_count) > room:
            return None
        idle_start = bisect_left(path, x=True, hi=hit_count, key=lambda block: not self._users_of[block])
        room -= sum(self._block_rooms[block] for block in path[idle_start:hit_count])
        for count in range(hit_count, idle_start, -1):
            if self._need(request, count) <= room:
                return count
            room += self._block_rooms[path[count - 1]]
        return idle_start if self._need(request, idle_start) <= room else None

    def _use(self, block: int) -> None:
        """Record that one more request uses a cached block, so that the block is not removed."""
        if not self._users_of[block]:
            del self._idle_blocks[block]
            self._idle_room -= self._block_rooms[block]
        self._users_of[block] += 1

    def _path(self, request: int) -> list[int]:
        """Return the blocks of a prompt's prefix, in order; none if prefixes are not kept."""
        path = self._paths.get(request)
        if path is None:
            path = self._paths[request] = (
                path_to(self._prefixes[request], self._parents) if self._keeps_prefixes else []
            )
        return path

    def _hit_count(self, request: int) -> int:
        """Return how many blocks of a prompt's prefix are in the cache, counted from its start."""
        return bisect_left(self._path(request), x=True, key=lambda block: block not in self._users_of)

    def _need(self, request: int, hit_count: int) -> int:
        """Return how much cache space a request needs in addition to the blocks that it reuses.

        Args:
            request: Index of the request.
            hit_count: Number of blocks that it reuses.

        Returns:
            The space in tokens.
        """
        return self._room_tokens(self._tokens[request] - self._shared_tokens(self._path(request), hit_count))

    def _tokens_until(self, path: Sequence[int], count: int) -> int:
        """Return how many tokens of a prefix can be reused from its first ``count`` blocks."""
        return self._end_tokens[path[count - 1]] if count else 0

    def _block_tokens(self, block: int) -> int:
        """Return how many tokens of a prompt can be reused from one block."""
        parent = self._parents[block]
        return self._end_tokens[block] - (0 if parent == NO_PREFIX else self._end_tokens[parent])

    def _shared_tokens(self, path: Sequence[int], count: int) -> int:
        """Return how many tokens of a prefix all requests that reuse it share in the KV cache.

        The cache is divided into blocks. Only blocks that the prefix fills completely are shared;
        every request has its own copy of the remaining tokens.

        Args:
            path: Blocks of a prompt's prefix, from the start of the prompt.
            count: Number of these blocks that are reused.
        """
        return self._tokens_until(path, count) // self._machine_block * self._machine_block

    def _shared_room(self, path: Sequence[int], count: int) -> int:
        """Return the cache space that requests with a common prefix share, in tokens.

        Args:
            path: Blocks of the prefix, from the start of the prompt.
            count: Number of these blocks that are reused.
        """
        return self._room_tokens(self._shared_tokens(path, count))
