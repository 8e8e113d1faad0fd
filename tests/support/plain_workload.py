"""Workloads for tests of the serving simulation."""

from collections.abc import Sequence

import numpy as np

from wse.arrays import F64, I64
from wse.serving.simulation.prefixes import NO_PREFIX, PrefixTree
from wse.serving.simulation.workload import NORMAL, Workload


def single_blocks(tokens: Sequence[int]) -> PrefixTree:
    """Return a tree of unrelated prefixes, each of which is one block with this many tokens."""
    return PrefixTree(parent=np.full(len(tokens), NO_PREFIX), end_tokens=np.array(tokens, np.int64))


def plain_workload(arrival_s: F64, prompt_tokens: I64, new_tokens: I64) -> Workload:
    """Return a workload of one tier without shared prefixes.

    Args:
        arrival_s: Times of arrival in seconds, never falling, float64 [requests].
        prompt_tokens, new_tokens: Lengths of prompts and answers, int64 [requests].
    """
    count = len(arrival_s)
    return Workload(
        arrival_s=arrival_s,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        tier=np.full(count, NORMAL),
        prefix=np.full(count, NO_PREFIX),
        prefix_tree=single_blocks([]),
    )
