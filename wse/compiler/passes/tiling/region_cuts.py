"""Cuts of a model over regions: extents, heads, vocabulary and experts over rows and columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wse.arrays import I32
from wse.compiler.options import LAYERS
from wse.compiler.passes.tiling.contraction import EXPERTS, FFN, HIDDEN, SHARED, HeldTypes
from wse.compiler.state import RegionCut
from wse.models.spec import Experts, ModelSpec
from wse.program.mixture import Mixture
from wse_mappings.cuts.expert_groups import ExpertGroups, columns_of_expert, expert_groups
from wse_mappings.cuts.head_groups import head_groups, head_groups_of_wafers
from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.layer_parts import BLOCK, Parts
from wse_mappings.cuts.split import blocks, middle_stretch, padded_blocks


class RegionShape(NamedTuple):
    """The shape of a region: ``rows``, and columns on each of ``span`` wafers.

    ``experts`` is their placement, None without any; with ``apart`` each wafer has experts of its own. Attention works
    on at most ``most_attention_cols`` columns of a region on one wafer; 0: on all.
    """

    rows: int
    cols_of_wafer: int
    span: int
    experts: str | None
    apart: bool
    most_attention_cols: int = 0

    @property
    def cols(self) -> int:
        """Columns of all wafers."""
        return self.cols_of_wafer * self.span

    @property
    def attention_cols(self) -> int:
        """Columns that attention works on."""
        return min(self.most_attention_cols or self.cols, self.cols) if self.span == 1 else self.cols


def region_cut(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape, parts: Parts = BLOCK) -> RegionCut:
    """Return the division of a model over a region of a given shape, for some parts of its feed-forward blocks."""
    cached = held.cache.of(_cut_on_one_wafer, 24) if region.span == 1 else held.cache.of(_cut_across_wafers, 2)
    cut = cached(spec, held, scope, region)
    return cut if parts == BLOCK else held.cache.of(_with_parts, 24)(spec, held, region, cut, parts)


def _cut_on_one_wafer(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    """`region_cut` of whole blocks."""
    return _region_cut(spec, held, scope, region)


def _cut_across_wafers(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    """Return `region_cut` of whole blocks over several wafers. Few results are cached, because each takes megabytes."""
    return _region_cut(spec, held, scope, region)


def _region_cut(spec: ModelSpec, held: HeldTypes, scope: str, region: RegionShape) -> RegionCut:
    rows, cols, span, of_attention = region.rows, region.cols, region.span, region.attention_cols
    hidden_group = held.group_of_cut(spec, HIDDEN, rows)
    hidden = blocks(spec.hidden_size, rows, hidden_group)
    cached_heads = held.cache.of(head_groups, 64)
    pairs = {"whole_pairs": scope != LAYERS, "mixed_pairs": spec.has_unit_rope}
    if spec.latent is not None:
        heads = cached_heads(of_attention, spec.kv_head_count, spec.latent.rope_size, spec.rotary_size, stretches=span)
    elif span == 1:
        heads = cached_heads(of_attention, spec.kv_head_count, spec.head_size, spec.rotary_size, **pairs)
    else:
        sizes = (spec.kv_head_count, spec.queries_per_kv, spec.head_size, spec.rotary_size)
        heads = head_groups_of_wafers(cols, *sizes, stretches=span, **pairs)
    heads, none = heads.on_the_middle(cols), np.empty((cols, 0), np.int32)
    return RegionCut(
        rows=rows,
        cols=cols,
        span=span,
        hidden=hidden,
        hidden_group=hidden_group,
        vocab=padded_blocks(spec.vocab_size, cols),
        positions=padded_blocks(spec.learned_positions, cols),
        heads=heads,
        queries=none if spec.latent is not None else heads.rows(spec.head_size, spec.queries_per_kv),
        keys=none if spec.latent is not None else heads.rows(spec.head_size, 1),
        latent=_latent_cut(spec, held, hidden, cols, of_attention),
        attention=middle_stretch(of_attention, cols),
        **_block_cuts(spec, held, region, BLOCK),
    )


def _with_parts(spec: ModelSpec, held: HeldTypes, region: RegionShape, cut: RegionCut, parts: Parts) -> RegionCut:
    """Return the division over a region with some parts of feed-forward blocks instead of whole blocks."""
    return replace(cut, **_block_cuts(spec, held, region, parts))


def _block_cuts(spec: ModelSpec, held: HeldTypes, region: RegionShape, parts: Parts) -> dict[str, Any]:
    """Return the fields of a region's division that depend on parts of feed-forward blocks: features and experts."""
    cols, mixture, groups = region.cols, spec.experts, None
    if mixture is not None and region.experts is not None:
        stretches = region.span if region.apart else 1
        placed = cols, mixture.count, held.expert_placement(spec, region.experts, cols, stretches), stretches
        features = held.group_of_cut(spec, EXPERTS, columns_of_expert(*placed))
        first, last = parts.features(mixture.ffn_size)
        groups = expert_groups(cols, mixture.count, last - first, *placed[2:], feature_group=features)
        groups = replace(groups, size=mixture.ffn_size, features=_from(first, groups.features))
    return {
        "ffn": _block(spec.ffn_size, parts, cols, held.group_of_cut(spec, FFN, cols)),
        "shared": _block(mixture.shared_size if mixture else 0, parts, cols, held.group_of_cut(spec, SHARED, cols)),
        "experts": groups,
        "mixture": _mixture(mixture, groups),
    }


def _block(extent: int, parts: Parts, cols: int, group: int) -> I32:
    """Return the features on each column for some parts of a block."""
    first, last = parts.features(extent)
    return _from(first, blocks(last - first, cols, group))


def _from(first: int, index: I32) -> I32:
    """Return an index with ``first`` added to its elements."""
    return np.where(index < 0, np.int32(-1), index + np.int32(first)) if first else index


def _latent_cut(spec: ModelSpec, held: HeldTypes, hidden: I32, cols: int, of_attention: int) -> LatentCut | None:
    """Return the division of latent attention over a region; None for other attention."""
    if spec.latent is None:
        return None
    cut = latent_cut(
        hidden,
        of_attention,
        source=spec.latent.q_rank,
        latent=spec.latent.kv_rank,
        heads=spec.head_count,
        nope=spec.latent.nope_size,
        rope=spec.latent.rope_size,
        value=spec.latent.value_size,
        cache=held.cache,
    )
    return cut.on_the_middle(cols)


def _mixture(experts: Experts | None, groups: ExpertGroups | None) -> Mixture | None:
    if experts is None or groups is None:
        return None
    return Mixture(count=experts.count, active=experts.active, by_column=groups.experts)
