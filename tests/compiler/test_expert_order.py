"""Tests of the order of experts: by popularity and by joint selection, within the groups of a router."""

from itertools import permutations

import numpy as np
import pytest

from wse.compiler.passes.tiling.expert_order import expert_order
from wse.program.mixture import Mixture
from wse_mappings.cuts.expert_groups import expert_groups


def mixture(count: int, active: int, groups: int) -> Mixture:
    """Return a mixture whose experts are divided into ``groups`` groups of two columns each."""
    experts = expert_groups(2 * groups, count, 8, str(groups)).experts
    return Mixture(count=count, active=active, by_column=experts)


def squared_loads(choices: np.ndarray, order: np.ndarray, groups: int, tokens: int) -> float:
    """Return the expected sum of squared loads of groups of equal size, for random batches with repetition."""
    group = np.empty(len(order), int)
    group[order] = np.arange(len(order)) * groups // len(order)
    loads = np.stack([np.bincount(group[selected], minlength=groups) for selected in choices])
    mean = loads.mean(axis=0)
    return float((tokens * (loads**2).mean(axis=0) + tokens * (tokens - 1) * mean**2).sum())


def test_experts_that_tokens_select_jointly_are_in_different_groups() -> None:
    choices = np.array([[0, 1], [2, 3]] * 4, np.int32)
    order = expert_order(choices, mixture(4, 2, 2), 1, tokens=1)
    group_of_expert = np.argsort(order) // 2
    assert group_of_expert[0] != group_of_expert[1]
    assert group_of_expert[2] != group_of_expert[3]


@pytest.mark.parametrize("tokens", [1, 32])
def test_order_is_close_to_the_best_and_better_than_that_of_indices(tokens: int) -> None:
    random = np.random.default_rng(4)
    popularity = np.array([9, 7, 3, 2, 1, 1.0])
    choices = np.stack([random.choice(6, 2, replace=False, p=popularity / popularity.sum()) for _ in range(60)])
    found = squared_loads(choices, expert_order(choices.astype(np.int32), mixture(6, 2, 3), 1, tokens), 3, tokens)
    best = min(squared_loads(choices, np.array(order), 3, tokens) for order in permutations(range(6)))
    by_index = squared_loads(choices, np.arange(6), 3, tokens)
    assert best <= found <= best + 0.15 * (by_index - best)


@pytest.mark.parametrize("router_groups", [1, 4])
def test_experts_stay_in_the_groups_of_their_router(router_groups: int) -> None:
    random = np.random.default_rng(1)
    choices = np.argsort(random.random((50, 8)) * np.arange(1, 9), axis=1)[:, :3].astype(np.int32)
    order = expert_order(choices, mixture(8, 3, 3), router_groups, tokens=4)
    size = 8 // router_groups
    assert np.array_equal(np.sort(order), np.arange(8))
    assert np.array_equal(order // size, np.arange(8) // size)
