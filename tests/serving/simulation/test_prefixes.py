"""Tests of prefixes that prompts share: trees of blocks, and the room that they occupy in a KV cache."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_costs import PlainCosts

from tests.support.plain_workload import BLOCK, chained_workload, plain_workload
from wse.serving.simulation.kv.kv_room import KvRoom
from wse.serving.simulation.kv.prefixes import NO_PREFIX, PrefixTree, PrefixTreeBuilder, path_to
from wse.serving.simulation.workload import Workload


def room_of(workload: Workload, capacity: int) -> KvRoom:
    """Return the room in a KV cache for `capacity` tokens that keeps prefixes."""
    return KvRoom(workload, PlainCosts(kv_capacity_tokens=capacity), prefix_cache=True)


def serve(room: KvRoom, request: int) -> int:
    """Admit a request, keep its prefix and let it leave; return the number of cached tokens that it used."""
    cached = room.take(request)
    room.keep_prefix(request)
    room.give_back(request)
    return cached


def test_equal_hash_after_another_block_is_another_block() -> None:
    builder = PrefixTreeBuilder()
    first, second, third = builder.add([1, 2, 3], BLOCK), builder.add([9, 2], BLOCK), builder.add([1, 2], BLOCK)
    tree = builder.tree()
    assert len(builder) == 5
    paths = [path_to(block, tree.parent.tolist()) for block in (first, second, third)]
    assert paths == [[0, 1, 2], [3, 4], [0, 1]]
    assert tree.tokens(np.array([first, second, NO_PREFIX])).tolist() == [30, 20, 0]


def test_requests_share_the_common_start_of_their_chains() -> None:
    room = room_of(chained_workload([[1, 2, 3], [1, 2, 4, 5], [7, 2], [1, 2, 4, 5, 6]]), 10_000)
    assert [serve(room, request) for request in range(4)] == [0, 20, 0, 40]
    assert (room.hits, room.cached_tokens) == (2, 60)
    assert room.free == 10_000 - 8 * BLOCK


def test_last_blocks_of_the_longest_unused_chain_are_removed_first() -> None:
    """After two chains of 3 blocks, 10 of 70 tokens are free; a request of 1 + 1 blocks removes block 3 of chain 1."""
    room = room_of(chained_workload([[1, 2, 3], [4, 5, 6], [8], [1, 2, 3], [4, 5, 6]]), 70)
    assert [serve(room, request) for request in range(5)] == [0, 0, 0, 20, 20]


def test_block_that_two_requests_read_concurrently_is_stored_once() -> None:
    room = room_of(chained_workload([[1, 2], [1, 2, 3]]), 1_000)
    assert (room.take(0), room.take(1)) == (0, 0)
    room.keep_prefix(0)
    room.keep_prefix(1)
    assert room.free == 1_000 - 3 * BLOCK - 2 * 10
    room.give_back(0)
    room.give_back(1)
    assert room.free == 1_000 - 3 * BLOCK


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=20), st.integers(60, 200))
def test_saved_tokens_equal_those_found_in_a_set_of_all_prefixes(chains: list[list[int]], capacity: int) -> None:
    """With room for everything, each request saves its longest common start with an earlier one."""
    room = room_of(chained_workload(chains), 100_000)
    seen: set[tuple[int, ...]] = set()
    for request, chain in enumerate(chains):
        starts = [tuple(chain[:count]) for count in range(1, len(chain) + 1)]
        assert serve(room, request) == BLOCK * sum(start in seen for start in starts)
        seen.update(starts)
    tight = room_of(chained_workload(chains), capacity)
    for request in range(len(chains)):
        assert tight.fits(request)
        serve(tight, request)
        assert 0 <= tight.free <= capacity


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=20), st.integers(1, 40))
def test_blocks_of_any_size_reuse_all_tokens(chains: list[list[int]], machine_block: int) -> None:
    """Requests copy the tokens of a prefix that do not fill a machine block; two of each three requests overlap."""
    workload = chained_workload(chains)
    exact, coarse = (
        KvRoom(workload, PlainCosts(kv_capacity_tokens=100_000, kv_block_tokens=size), prefix_cache=True)
        for size in (1, machine_block)
    )
    open_requests: list[int] = []
    for request in range(len(chains)):
        assert coarse.take(request) == exact.take(request)
        open_requests.append(request)
        if request % 3:
            for ended in open_requests:
                for room in (exact, coarse):
                    room.keep_prefix(ended)
                    room.give_back(ended)
            open_requests.clear()
    assert coarse.cached_tokens == exact.cached_tokens
    assert exact.occupied <= coarse.occupied
    assert coarse.occupied % machine_block == 0


def test_a_prefix_that_ends_within_a_machine_block_is_copied() -> None:
    """Machine blocks have 16 tokens. A chain of 20 tokens fills one block and part of a second, which requests copy."""
    workload = chained_workload([[1, 2], [1, 2], [1, 2, 3]])
    room = KvRoom(workload, PlainCosts(kv_capacity_tokens=96, kv_block_tokens=16), prefix_cache=True)
    assert serve(room, 0) == 0
    assert room.occupied == 32
    assert room.take(1) == 20
    assert room.occupied == 32 + 16
    assert room.take(2) == 20
    assert room.occupied == 32 + 16 + 32
    room.keep_prefix(2)
    room.give_back(2)
    assert room.occupied == 32 + 16 + 16


def test_request_uses_the_blocks_that_leave_room_for_the_rest() -> None:
    """Blocks end after 32, 64 and 70 tokens and fill the cache of 96. The last is removed for the 26 other tokens."""
    tree = PrefixTree(parent=np.array([NO_PREFIX, 0, 1]), end_tokens=np.array([32, 64, 70]))
    plain = plain_workload(np.zeros(2), np.array([80, 80]), np.array([10, 10]))
    workload = replace(plain, prefix=np.array([2, 2]), prefix_tree=tree)
    room = KvRoom(workload, PlainCosts(kv_capacity_tokens=96, kv_block_tokens=32), prefix_cache=True)
    assert serve(room, 0) == 0
    assert room.free == 0
    assert room.take(1) == 64
    assert (room.free, room.unread_blocks(1)) == (0, [(2, None)])
    room.keep_prefix(1)
    room.give_back(1)
    assert (room.occupied, room.hits, room.cached_tokens) == (96, 1, 64)


@pytest.mark.parametrize("keeps", [False, True])
def test_chain_in_use_is_never_removed(*, keeps: bool) -> None:
    room = KvRoom(chained_workload([[1, 2], [1, 2], [3, 4]]), PlainCosts(kv_capacity_tokens=45), prefix_cache=keeps)
    room.take(0)
    room.keep_prefix(0)
    assert room.fits(1) == keeps
    assert not room.fits(2)
