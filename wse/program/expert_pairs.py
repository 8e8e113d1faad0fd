"""Tokens of experts in a Program, and the (token, expert) pairs of the columns that store the experts."""

from __future__ import annotations

import numpy as np

from wse.arrays import I32, I64
from wse.program.mixture import Mixture
from wse.program.program import Program


def assumed_pairs(program: Program, stage: int, layer: int, tokens: int) -> I64:
    """Return how many tokens each expert of a layer is assumed to process in a pass.

    The routing of the Program is either even (all experts process about the same number of tokens)
    or follows a given distribution.

    Args:
        program: The compiled Program.
        stage: Index of a stage (region of PEs) that stores experts of the layer.
        layer: Index of the layer.
        tokens: Number of tokens in the pass.

    Returns:
        int64 ``[experts]``.
    """
    if not program.routing.is_even:
        return program.routing.loads(layer, tokens)
    mixture = _mixture(program, stage)
    pairs = np.empty(mixture.count, np.int64)
    pairs[experts_at_positions(program, layer, mixture.count)] = mixture.even_pairs(tokens)
    return pairs


def pairs_of_columns(program: Program, stage: int, layer: int, pairs: I64) -> I64:
    """Return how many (token, expert) pairs each column of PEs processes in a layer.

    Args:
        program: The compiled Program.
        stage: Index of a stage (region of PEs) that stores experts of the layer.
        layer: Index of the layer.
        pairs: int64 ``[experts]``, number of tokens routed to each expert.

    Returns:
        int64 ``[cols]``, for the columns of the stage.
    """
    mixture = _mixture(program, stage)
    return mixture.pairs_by_column(pairs[experts_at_positions(program, layer, mixture.count)])


def experts_at_positions(program: Program, layer: int, count: int) -> I32:
    """Return the order in which the experts of a layer are placed, int32 ``[experts]``.

    Element p is the index of the expert at position p, and the position determines the column of
    PEs that stores the expert. Without ``Program.expert_order``, expert p is at position p.

    Args:
        program: The compiled Program.
        layer: Index of the layer.
        count: Number of experts.
    """
    return program.expert_order[layer] if program.expert_order.size else np.arange(count, dtype=np.int32)


def _mixture(program: Program, stage: int) -> Mixture:
    """Return the assignment of experts to columns of PEs in a stage.

    Args:
        program: The compiled Program.
        stage: Index of a stage (region of PEs) that stores experts.
    """
    mixture = program.mixtures[stage]
    assert mixture is not None
    return mixture
