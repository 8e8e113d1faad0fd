"""Room for caches where layers with windows forget tokens: what requests take, share and give back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plain_costs import PlainCosts
from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.machine import simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.kv_room import KvRoom
from wse.serving.simulation.workload import Workload

WINDOW = 32


@dataclass(frozen=True, kw_only=True)
class WindowedCosts(PlainCosts):
    """Every second layer keeps 32 tokens; blocks have 8 tokens."""

    kv_block_tokens: int = 8

    def room_tokens(self, tokens: int) -> int:
        whole = -(-tokens // 8) * 8
        return (whole + min(whole, WINDOW)) // 2


def workload(prompts: list[int], new: int, prefix_tokens: int = 0) -> Workload:
    plain = plain_workload(np.zeros(len(prompts)), np.array(prompts), np.full(len(prompts), new))
    shared = np.full(len(prompts), prefix_tokens)
    return replace(plain, prefix=np.full(len(prompts), 0 if prefix_tokens else -1), prefix_tokens=shared)


def test_request_takes_what_windows_keep() -> None:
    room = KvRoom(workload([90, 90, 90], 6), WindowedCosts(kv_capacity_tokens=130), prefix_cache=False)
    assert room.take(0) == 0
    assert room.free == 130 - (96 + 32) // 2
    assert room.fits(1)
    room.take(1)
    assert not room.fits(2)
    room.give_back(0)
    assert room.free == 130 - 64


def test_who_shares_a_prefix_takes_room_for_the_tokens_behind_it_and_windows_of_its_own() -> None:
    """48 of 96 tokens are shared: the first request's 48 + 16 behind, another's 24 + 16; 24 + 16 stay."""
    room = KvRoom(workload([90, 90], 6, prefix_tokens=50), WindowedCosts(kv_capacity_tokens=200), prefix_cache=True)
    room.take(0)
    room.keep_prefix(0)
    assert room.free == 200 - 64
    assert room.take(1) == 48
    assert room.free == 200 - 64 - (48 + 32) // 2
    room.give_back(0)
    assert room.free == 200 - 40 - 40
    room.give_back(1)
    assert room.free == 200 - 40
    assert (room.hits, room.saved_tokens) == (1, 48)


def test_room_of_the_prefix_that_a_request_has_is_not_free_for_it() -> None:
    """Behind its 48 cached tokens, which hold 40 tokens of the 70, it needs 24 + 16."""
    room = KvRoom(workload([90, 90], 6, prefix_tokens=50), WindowedCosts(kv_capacity_tokens=70), prefix_cache=True)
    room.take(0)
    room.keep_prefix(0)
    room.give_back(0)
    assert room.free == 30
    assert not room.fits(1)


@given(st.lists(st.integers(40, 200), min_size=1, max_size=12), st.integers(1, 60), st.sampled_from([0, 24, 40]))
def test_all_room_is_free_again_but_for_prefixes(prompts: list[int], new: int, prefix_tokens: int) -> None:
    costs = WindowedCosts(kv_capacity_tokens=10_000)
    room = KvRoom(workload(prompts, new, prefix_tokens), costs, prefix_cache=True)
    for request in range(len(prompts)):
        room.take(request)
        room.keep_prefix(request)
        assert room.free >= 0
    for request in range(len(prompts)):
        room.give_back(request)
    assert room.free == 10_000 - costs.room_tokens(prefix_tokens)


@pytest.mark.parametrize(("capacity", "together"), [(64, 1), (128, 2), (192, 3)])
def test_as_many_are_served_at_a_time_as_windows_leave_room_for(capacity: int, together: int) -> None:
    costs = WindowedCosts(pass_s=1.0, kv_capacity_tokens=capacity)
    work = workload([90] * 6, 6)
    outcome = simulate_continuous(work, costs, ContinuousPolicy(max_users=8, prompt_tokens=1000))
    assert (np.sort(outcome.start_s)[:together] == 0).all()
    assert (np.sort(outcome.start_s)[together:] > 0).all()
