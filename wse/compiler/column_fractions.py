"""Fraction of a tensor on the fullest column of a region, for each way to divide tensors by columns."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.dimensions import EXPERTS, FFN, SHARED
from wse.compiler.score_bytes import fullest_head_places
from wse.models.spec import Layer, ModelSpec
from wse_mappings.cuts.expert_groups import columns_of_expert, experts_of_column
from wse_mappings.cuts.layer_parts import Parts
from wse_mappings.rounding import ceil_div


class Way(IntEnum):
    """Ways to divide the bytes of a tensor over the columns of a region.

    ``HEADS``, ``EXPERTS``, ``FFN`` and ``SHARED`` divide by features of heads, experts, a dense
    block or a shared block, ``VOCABULARY`` by vocabulary entries, and ``EVEN`` evenly. The names
    with ``SCALES`` are the scales of one quantisation group, for matrices that contract over
    features of experts, a dense block and a shared block. ``WINDOW_HEADS`` divides by features of
    the heads of layers with a sliding window.
    """

    HEADS = 0
    EXPERTS = 1
    FFN = 2
    SHARED = 3
    VOCABULARY = 4
    EVEN = 5
    EXPERT_SCALES = 6
    FFN_SCALES = 7
    SHARED_SCALES = 8
    WINDOW_HEADS = 9


SCALES: Final = {Way.EXPERTS: Way.EXPERT_SCALES, Way.FFN: Way.FFN_SCALES, Way.SHARED: Way.SHARED_SCALES}
"""Way to divide the scales of matrices that are divided in one of the first ways."""


def column_fractions(spec: ModelSpec, weight_types: WeightTypes, placement: str, cols: int) -> tuple[float, ...]:
    """Return the fraction of a tensor that the fullest column of PEs stores.

    The fraction depends on how the tensor is partitioned across the columns of a region: evenly, by
    attention heads, by features of a feed-forward block, and so on.

    Args:
        spec: Model.
        weight_types: Weight and activation types.
        placement: Placement of experts, as a name or a number of groups.
        cols: Columns of the region.

    Returns:
        One fraction for each `Way`, in order. The three numbers for the scales of quantised weights
        are not fractions: they count the quantisation groups of which the column stores weights.
    """
    mixture, shared_size, expert_fraction, expert_groups = spec.experts, 0, 0.0, 0.0
    if mixture is not None:
        shared_size = mixture.shared_size
        cut = weight_types.cut(spec, EXPERTS, columns_of_expert(cols, mixture.count, placement))
        experts = experts_of_column(cols, mixture.count, placement)
        expert_fraction = experts * cut.width / (mixture.count * mixture.ffn_size)
        expert_groups = experts * cut.touched / mixture.count
    ffn_cut, shared_cut = weight_types.cut(spec, FFN, cols), weight_types.cut(spec, SHARED, cols)
    return (
        head_fraction(spec, cols),
        expert_fraction,
        ffn_cut.width / max(1, spec.ffn_size),
        shared_cut.width / max(1, shared_size),
        ceil_div(spec.vocab_size, cols) / spec.vocab_size,
        1 / cols,
        expert_groups,
        ffn_cut.touched,
        shared_cut.touched,
        head_fraction(spec.with_window_heads, cols),
    )


def way_of_attention(spec: ModelSpec, layer: Layer) -> Way:
    """Return how the KV cache or state of a layer is divided over columns."""
    if layer.linear:
        return Way.EVEN
    return Way.HEADS if layer.window is None or spec.window_heads is None else Way.WINDOW_HEADS


def head_fraction(spec: ModelSpec, cols: int) -> float:
    """Return the fraction of the bytes of attention heads that the fullest column of PEs stores."""
    if spec.latent is not None:
        return 1 / cols
    heads, features = fullest_head_places(spec, cols)
    return heads * features / (spec.kv_head_count * spec.head_size)


def padding_of_parts(spec: ModelSpec, placement: str, cols: int, parts: Parts) -> list[tuple[Way, float]]:
    """Return the extra padding of a column if a region stores only parts of a feed-forward block.

    Each part is divided into whole features per column, which can require more padding than
    dividing the whole block. For example, 100 features on 10 columns are 10 per column, but two
    parts of 45 and 55 features are 5 and 6 per column.

    Args:
        spec: Model.
        placement: Placement of experts.
        cols: Columns of the region.
        parts: Parts of the block that the region stores.

    Returns:
        (way, added fraction) pairs. The way is ``Way.FFN`` for a dense block, ``Way.SHARED`` for
        shared experts and ``Way.EXPERTS`` for routed experts. The fraction is the added padding
        relative to the bytes without it. Blocks of which the region stores no features are omitted.
    """
    lines = [(Way.FFN, spec.ffn_size, cols)]
    if spec.experts is not None:
        expert_cols = columns_of_expert(cols, spec.experts.count, placement)
        lines += [(Way.SHARED, spec.experts.shared_size, cols), (Way.EXPERTS, spec.experts.ffn_size, expert_cols)]
    added_fractions = []
    for way, extent, columns in lines:
        first, last = parts.features(extent)
        if last > first:
            whole_fraction = ceil_div(extent, columns) / extent
            parts_fraction = ceil_div(last - first, columns) / (last - first)
            added_fractions.append((way, parts_fraction / whole_fraction - 1))
    return added_fractions
