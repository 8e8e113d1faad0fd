"""Partitioning of a model across the rows and columns of a region (`RegionCut`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wse.arrays import I32
from wse.compiler.options import LAYERS
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.dimensions import EXPERTS, FFN, HIDDEN, SHARED
from wse.compiler.state import RegionCut
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec
from wse.program.mixture import Mixture
from wse_mappings.cuts.expert_groups import ExpertGroups, columns_of_expert, expert_groups
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.layer_parts import BLOCK, Parts
from wse_mappings.cuts.linear_cut import LinearCut, linear_cut
from wse_mappings.cuts.split import blocks, middle_segment, padded_blocks


class RegionShape(NamedTuple):
    """Size of a region (a rectangle of PEs that stores layers) and its expert placement.

    These properties determine how a model is partitioned across the region.

    Attributes:
        rows: Number of rows.
        cols_of_wafer: Number of columns on each wafer.
        span: Number of wafers on which the region has a rectangle of PEs.
        experts: Placement of experts, as a name or a number of groups; None if the region has no
            experts.
        apart: Whether every wafer of the region stores different experts.
        max_attention_cols: Maximum number of columns for attention on a single-wafer region; 0 for
            all columns.
    """

    rows: int
    cols_of_wafer: int
    span: int
    experts: str | None
    apart: bool
    max_attention_cols: int = 0

    @property
    def cols(self) -> int:
        """Total number of columns of the region on all wafers."""
        return self.cols_of_wafer * self.span

    @property
    def attention_cols(self) -> int:
        """Number of columns that attention uses.

        It is limited by ``max_attention_cols`` if the region is on a single wafer.
        """
        return min(self.max_attention_cols or self.cols, self.cols) if self.span == 1 else self.cols


def region_cut(
    spec: ModelSpec, weight_types: WeightTypes, scope: str, region: RegionShape, parts: Parts = BLOCK
) -> RegionCut:
    """Return how the dimensions of a model are partitioned across the PEs of a region.

    A region is a rectangle of PEs that stores consecutive layers or parts of layers.

    Args:
        spec: Model; its layers are ignored.
        weight_types: Storage types of the weights, with the request's cache.
        scope: What is compiled: the whole model, its layers, or a single product.
        region: Shape of the region.
        parts: Parts of the feed-forward blocks that the region contains.
    """
    divide, cached_results = (_cut_on_one_wafer, 24) if region.span == 1 else (_cut_across_wafers, 2)
    cut = weight_types.cache.of(divide, cached_results)(spec, weight_types, scope, region)
    return cut if parts == BLOCK else weight_types.cache.of(_with_parts, 24)(spec, weight_types, region, cut, parts)


def _cut_on_one_wafer(spec: ModelSpec, weight_types: WeightTypes, scope: str, region: RegionShape) -> RegionCut:
    """Return how a model is partitioned across a region on one wafer that stores whole layers.

    This function is separate from `_cut_across_wafers` because it has a larger cache.
    """
    return _region_cut(spec, weight_types, scope, region)


def _cut_across_wafers(spec: ModelSpec, weight_types: WeightTypes, scope: str, region: RegionShape) -> RegionCut:
    """Return how a model is partitioned across a region on several wafers that stores whole layers.

    Each result needs megabytes of memory. The cache of this function therefore stores fewer results
    than the cache for regions on one wafer.
    """
    return _region_cut(spec, weight_types, scope, region)


def _region_cut(spec: ModelSpec, weight_types: WeightTypes, scope: str, region: RegionShape) -> RegionCut:
    """Compute how a model is partitioned across a region that stores whole feed-forward blocks.

    Args:
        spec: Model.
        weight_types: Storage types of the weights.
        scope: What is compiled: the whole model, its layers, or a single product.
        region: Shape of the region.
    """
    rows, cols, span, attention_cols = region.rows, region.cols, region.span, region.attention_cols
    hidden_group = weight_types.group_of_cut(spec, HIDDEN, rows)
    hidden = blocks(spec.hidden_size, rows, hidden_group)
    cached_heads = weight_types.cache.of(head_groups, 64)
    pairs = {"whole_pairs": scope != LAYERS, "mixed_pairs": spec.has_unit_rope}
    if spec.latent is not None:
        heads = cached_heads(
            attention_cols, spec.kv_head_count, spec.latent.rope_size, spec.rotary_size, segment_count=span
        )
    elif span == 1:
        heads = cached_heads(attention_cols, spec.kv_head_count, spec.head_size, spec.rotary_size, **pairs)
    else:
        sizes = (spec.kv_head_count, spec.queries_per_kv, spec.head_size, spec.rotary_size)
        heads = head_groups_of_wafers(cols, *sizes, segment_count=span, **pairs)
    heads, empty_index = heads.on_the_middle(cols), np.empty((cols, 0), np.int32)
    return RegionCut(
        rows=rows,
        cols=cols,
        span=span,
        hidden=hidden,
        hidden_group=hidden_group,
        vocab=padded_blocks(spec.vocab_size, cols),
        positions=padded_blocks(spec.learned_positions, cols),
        heads=heads,
        queries=empty_index if spec.latent is not None else heads.rows(spec.head_size, spec.queries_per_kv),
        keys=empty_index if spec.latent is not None else heads.rows(spec.head_size, 1),
        latent=_latent_cut(spec, weight_types, hidden, cols, attention_cols),
        linear=_linear_cut(spec, region),
        attention=middle_segment(attention_cols, cols),
        window=None if spec.window_heads is None else _region_cut(spec.with_window_heads, weight_types, scope, region),
        **_block_cuts(spec, weight_types, region, BLOCK),
    )


def _with_parts(
    spec: ModelSpec, weight_types: WeightTypes, region: RegionShape, cut: RegionCut, parts: Parts
) -> RegionCut:
    """Adapt a region's partitioning if it stores only some parts of the feed-forward blocks.

    A feed-forward block may be split into parts that are stored in neighbouring regions.

    Args:
        spec: Model.
        weight_types: Storage types of the weights.
        region: Shape of the region.
        cut: Partitioning of the region for whole blocks.
        parts: The parts that the region stores.
    """
    block_cuts = _block_cuts(spec, weight_types, region, parts)
    return replace(cut, **block_cuts, window=None if cut.window is None else replace(cut.window, **block_cuts))


def _block_cuts(spec: ModelSpec, weight_types: WeightTypes, region: RegionShape, parts: Parts) -> dict[str, Any]:
    """Return which features each column of PEs stores for some parts of feed-forward blocks.

    Args:
        spec: Model.
        weight_types: Storage types of the weights.
        region: Shape of the region.
        parts: The parts of the blocks that the region stores.

    Returns:
        Values for the fields ``ffn``, ``shared``, ``experts`` and ``mixture`` of `RegionCut`, by
        field name.
    """
    cols, mixture, groups = region.cols, spec.experts, None
    if mixture is not None and region.experts is not None:
        segment_count = region.span if region.apart else 1
        placement = (
            cols,
            mixture.count,
            weight_types.expert_placement(spec, region.experts, cols, segment_count),
            segment_count,
        )
        feature_group = weight_types.group_of_cut(spec, EXPERTS, columns_of_expert(*placement))
        first, last = parts.features(mixture.ffn_size)
        groups = expert_groups(cols, mixture.count, last - first, *placement[2:], feature_group=feature_group)
        groups = replace(groups, size=mixture.ffn_size, features=_shifted_index(first, groups.features))
    return {
        "ffn": _block(spec.ffn_size, parts, cols, weight_types.group_of_cut(spec, FFN, cols)),
        "shared": _block(
            mixture.shared_size if mixture else 0, parts, cols, weight_types.group_of_cut(spec, SHARED, cols)
        ),
        "experts": groups,
        "mixture": _mixture(mixture, groups),
    }


def _block(extent: int, parts: Parts, cols: int, group: int) -> I32:
    """Return which features each column stores, for some parts of a feed-forward block.

    Args:
        extent: Features of the whole block.
        parts: The parts.
        cols: Columns of the region.
        group: Features are divided at multiples of this group size; 0 to divide them evenly.

    Returns:
        int32 ``[cols, n]``; -1 is padding.
    """
    first, last = parts.features(extent)
    return _shifted_index(first, blocks(last - first, cols, group))


def _shifted_index(first: int, index: I32) -> I32:
    """Return an index array with ``first`` added to all indices except padding, which is -1."""
    return np.where(index < 0, np.int32(-1), index + np.int32(first)) if first else index


def _latent_cut(
    spec: ModelSpec, weight_types: WeightTypes, hidden: I32, cols: int, attention_cols: int
) -> LatentCut | None:
    """Return how latent attention is partitioned across the PEs of a region.

    Latent attention uses ``attention_cols`` columns in the middle of the region. The result is None
    if the model does not use it.
    """
    if spec.latent is None:
        return None
    cut = latent_cut(
        hidden,
        attention_cols,
        source=spec.latent.q_rank,
        latent=spec.latent.kv_rank,
        heads=spec.head_count,
        nope=spec.latent.nope_size,
        rope=spec.latent.rope_size,
        value=spec.latent.value_size,
        cache=weight_types.cache,
    )
    return cut.on_the_middle(cols)


def _linear_cut(spec: ModelSpec, region: RegionShape) -> LinearCut | None:
    """Return how linear attention is partitioned across the attention columns of a region.

    The result is None if no layer of the model has linear attention.
    """
    if spec.linear is None:
        return None
    return linear_cut(
        region.rows,
        region.attention_cols,
        key_heads=spec.linear.key_heads,
        values_per_key=spec.linear.values_per_key,
        key_size=spec.linear.key_size,
        value_size=spec.linear.value_size,
        taps=spec.linear.taps,
        segment_count=region.span,
    ).on_the_middle(region.cols)


def _mixture(experts: Experts | None, groups: ExpertGroups | None) -> Mixture | None:
    """Return the model's experts, with the assignment to columns of PEs; None without experts."""
    if experts is None or groups is None:
        return None
    return Mixture(count=experts.count, active=experts.active, by_column=groups.experts)
