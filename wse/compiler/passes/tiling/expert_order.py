"""Order of the experts in a layer, such that experts that are selected together are apart.

A group of columns stores the experts at some positions. It must process all (token, expert) pairs
of these experts, and a pass waits for the group with the most pairs. The order assigns experts to
positions so that the loads of groups vary little, from recorded selections.
"""

from __future__ import annotations

import numpy as np

from wse.arrays import F64, I32
from wse.program.mixture import Mixture


def expert_order(choices: I32, mixture: Mixture, router_groups: int, tokens: int) -> I32:
    """Return which expert of a layer is at which position.

    Experts are assigned to groups of columns one after another, from the most popular. For a pass
    of B tokens, the expected square of the load of a group with the experts G is

        B sum(c[e, f]) + B (B - 1) sum(p[e]) ^ 2        (sums over e and f in G)

    where p is the probability that a token selects an expert, and c the probability that it selects
    both. Each expert goes to the group with a free position in which it adds the least. The router
    may select groups of neighbouring experts first; experts then stay in the positions of their
    router group.

    Args:
        choices: int32 ``[tokens, active]``: experts that each recorded token selected.
        mixture: Positions on each column.
        router_groups: Number of groups of neighbouring experts from which the router selects.
        tokens: Number of tokens B in a pass.

    Returns:
        int32 ``[experts]``: the expert at each position.
    """
    joint = _joint_probabilities(choices, mixture.count)
    popularity, group_of_position = joint.diagonal(), _group_of_position(mixture)
    router_size = mixture.count // router_groups
    order = np.full(mixture.count, -1, np.int32)
    group_popularity = np.zeros(int(group_of_position.max()) + 1)
    joint_with_group = np.zeros((mixture.count, len(group_popularity)))  # with the experts of each group so far
    for expert in np.argsort(-popularity, kind="stable").tolist():
        first = expert // router_size * router_size
        free_positions = first + np.flatnonzero(order[first : first + router_size] < 0)
        added_load = joint_with_group[expert] + (tokens - 1) * popularity[expert] * group_popularity
        position = free_positions[np.argmin(added_load[group_of_position[free_positions]])]
        order[position] = expert
        group_popularity[group_of_position[position]] += popularity[expert]
        joint_with_group[:, group_of_position[position]] += joint[:, expert]
    return order


def _joint_probabilities(choices: I32, count: int) -> F64:
    """Return the probability that a token selects both of two experts, float64 ``[count, count]``.

    The diagonal contains the probabilities of single experts.
    """
    is_selected = np.zeros((len(choices), count), np.float32)
    np.put_along_axis(is_selected, choices, 1, axis=1)
    return (is_selected.T @ is_selected / len(choices)).astype(np.float64)


def _group_of_position(mixture: Mixture) -> I32:
    """Return which group of columns stores the expert at each position, int32 ``[experts]``."""
    groups = np.unique(mixture.by_column, axis=0)
    group, place = np.nonzero(groups >= 0)
    result = np.empty(mixture.count, np.int32)
    result[groups[group, place]] = group
    return result
