"""Workloads for tests of the serving simulation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wse.arrays import F64, I64
from wse.serving.simulation.kv.prefixes import NO_PREFIX, PrefixTree, PrefixTreeBuilder
from wse.serving.simulation.workload import NORMAL, Workload

BLOCK: Final = 10
"""Tokens per block of the chains of `chained_workload`."""


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


def chained_workload(chains: Sequence[Sequence[int]], every_s: float = 0.0) -> Workload:
    """Return requests at equal intervals whose prompts start with chains of blocks of 10 tokens.

    Each prompt has 5 tokens after its chain, and each answer has 5 tokens.
    """
    builder = PrefixTreeBuilder()
    prefix = np.array([builder.add(chain, BLOCK) for chain in chains])
    prompts = np.array([len(chain) * BLOCK + 5 for chain in chains])
    plain = plain_workload(every_s * np.arange(len(chains)), prompts, np.full(len(chains), 5))
    return replace(plain, prefix=prefix, prefix_tree=builder.tree())
