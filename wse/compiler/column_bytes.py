"""Bytes of a column of PEs of a region by how many columns the region has: whole features, so padding and all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from wse.compiler.options import Options
from wse.compiler.passes.tiling.contraction import EXPERTS, FFN, HIDDEN_IN, SHARED, HeldTypes
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, in_block, layer_shapes, tensor_bytes
from wse.number_formats import ELEMENT_BYTES
from wse_mappings.cuts.expert_groups import columns_of_expert, experts_of_column
from wse_mappings.cuts.head_groups import head_places
from wse_mappings.cuts.layer_parts import LayerRange, Parts, unit_bytes
from wse_mappings.cuts.split import ceil_div
from wse_mappings.cuts.widths import ColumnBytes

_HEADS, _EXPERTS, _FFN, _SHARED, _VOCABULARY, _EVEN, _EXPERT_SCALES, _FFN_SCALES, _SHARED_SCALES = range(9)
"""The ways in which bytes are cut over columns: by features of heads, of experts, of a dense block, of a shared one, by
entries of a vocabulary, or evenly; and the scales of a group of what sums over features of experts and of blocks."""
_SCALES = {_EXPERTS: _EXPERT_SCALES, _FFN: _FFN_SCALES, _SHARED: _SHARED_SCALES}
_WAYS = _SHARED_SCALES + 1


class _Storage(NamedTuple):
    """The types of weights and cache, the placement of experts, and the tokens of all caches."""

    types: HeldTypes
    experts: str
    cache_tokens: int


def column_bytes(spec: ModelSpec, options: Options) -> Callable[[LayerRange, int], ColumnBytes]:
    """Return a function for the bytes of a column of a region, given its layers, their parts, and its vocabulary
    tables.

    Heads, blocks and vocabulary are cut into whole features of a column, as `wse.compiler.passes.shard` cuts them.
    Latent attention and vectors count as if they were cut evenly. Of codes the column has the scales of what sums over
    its features, for each group that it touches; those of what sums over hidden features count with its rows
    (`HeldTypes.row_share`). Scales of attention count as if none was there twice.
    The function is one object for all regions that hold the same, on any number of wafers.
    """
    types = HeldTypes.from_options(options)
    storage = _Storage(types, options.experts, options.context * options.batch)
    return options.cache.of(_column_bytes, 4)(spec, storage)


def _column_bytes(spec: ModelSpec, held: _Storage) -> Callable[[LayerRange, int], ColumnBytes]:
    types, shape = held.types, replace(spec, layers=())
    table_bytes = spec.vocab_size * spec.hidden_size * types.float_bytes
    of_layer = cache(lambda layer, parts: _layer_bytes(spec, held, layer, parts))
    placement = cache(lambda cols: types.expert_placement(shape, held.experts, cols))
    shares = cache(lambda cols: _shares(shape, types, placement(cols), cols))
    padding = cache(lambda cols, parts: _padding_of_parts(shape, placement(cols), cols, parts))

    @cache
    def of_region(layers: frozenset[tuple[tuple[Layer, Parts], int]], tables: int) -> ColumnBytes:
        whole, cut = [0.0] * _WAYS, []
        whole[_VOCABULARY] += tables * table_bytes
        for (layer, parts), count in layers:
            sizes = of_layer(layer, parts)
            if parts.cuts_block and parts.block is not None:
                cut.append((parts.block, sizes))
            whole = [size + count * more for size, more in zip(whole, sizes, strict=True)]
        held_ways = [(way, size) for way, size in enumerate(whole) if size]

        def bytes_of(cols: int) -> float:
            of_cols, total = shares(cols), 0.0
            for way, size in held_ways:
                total += size * of_cols[way]
            for parts, sizes in cut:
                for way, more in padding(cols, parts):
                    total += sizes[way] * of_cols[way] * more
            return total

        return cache(bytes_of)

    @cache
    def of_layers(layers: LayerRange, tables: int) -> ColumnBytes:
        kinds = Counter((spec.layers[layer], parts) for layer, parts in layers.parts)
        return of_region(frozenset(kinds.items()), tables)

    return of_layers


def block_bytes(spec: ModelSpec, options: Options) -> ColumnBytes:
    """Return a function for the bytes per column of a token's gate and up projections in a dense block.

    What is made of them takes their place.
    """
    features = 0 if all(layer.experts for layer in spec.layers) else spec.ffn_size
    return options.cache.of(_block_bytes, 16)(features, (1 + spec.gated) * ELEMENT_BYTES[options.element_type("acc")])


def _block_bytes(features: int, size: int) -> ColumnBytes:
    return lambda cols: float(size * ceil_div(features, cols))


def score_bytes(spec: ModelSpec, options: Options) -> ColumnBytes:
    """Return a function for the bytes per column, over all rows, of a token's scores with all cache entries."""
    return options.cache.of(_score_bytes, 16)(
        replace(spec, layers=()), options.context * ELEMENT_BYTES[options.element_type("acc")]
    )


def _score_bytes(spec: ModelSpec, of_entry: int) -> ColumnBytes:
    """Return the bytes of a token's scores where each cache entry has a number of bytes per head."""

    @cache
    def of_columns(cols: int) -> float:
        if spec.latent is not None:
            return float(of_entry * spec.head_count)  # all heads share all columns
        return float(of_entry * _head_places(spec, cols)[0] * spec.queries_per_kv)

    return of_columns


def _head_places(spec: ModelSpec, cols: int) -> tuple[int, int]:
    """Return the key heads of the fullest of ``cols`` columns, and the features of each there."""
    sizes = spec.kv_head_count, spec.head_size, spec.rotary_size
    return head_places(cols, *sizes, mixed_pairs=spec.has_unit_rope)


def _shares(spec: ModelSpec, held: HeldTypes, placement: str, cols: int) -> tuple[float, ...]:
    """Return the fraction of each kind of bytes on the fullest of ``cols`` columns, for a placement of experts.

    Of scales it is the groups of inputs that the column touches.
    """
    heads, features = _head_places(spec, cols)
    mixture, shared_size, of_experts, expert_groups = spec.experts, 0, 0.0, 0.0
    if mixture is not None:
        shared_size = mixture.shared_size
        cut = held.cut(spec, EXPERTS, columns_of_expert(cols, mixture.count, placement))
        experts = experts_of_column(cols, mixture.count, placement)
        of_experts = experts * cut.width / (mixture.count * mixture.ffn_size)
        expert_groups = experts * cut.touched / mixture.count
    ffn, shared = held.cut(spec, FFN, cols), held.cut(spec, SHARED, cols)
    return (
        heads * features / (spec.kv_head_count * spec.head_size) if spec.latent is None else 1 / cols,
        of_experts,
        ffn.width / max(1, spec.ffn_size),
        shared.width / max(1, shared_size),
        ceil_div(spec.vocab_size, cols) / spec.vocab_size,
        1 / cols,
        expert_groups,
        ffn.touched,
        shared.touched,
    )


def _padding_of_parts(spec: ModelSpec, placement: str, cols: int, parts: Parts) -> list[tuple[int, float]]:
    """Return the ways in which columns divide parts of a block, and the additional fraction of bytes of a column.

    The parts are cut into whole features of a column by themselves.
    """
    lines = [(_FFN, spec.ffn_size, cols)]
    if spec.experts is not None:
        of_expert = columns_of_expert(cols, spec.experts.count, placement)
        lines += [(_SHARED, spec.experts.shared_size, cols), (_EXPERTS, spec.experts.ffn_size, of_expert)]
    further = []
    for way, extent, columns in lines:
        first, last = parts.features(extent)
        if last > first:
            of_whole, of_parts = ceil_div(extent, columns) / extent, ceil_div(last - first, columns) / (last - first)
            further.append((way, of_parts / of_whole - 1))
    return further


def _layer_bytes(spec: ModelSpec, held: _Storage, layer: Layer, parts: Parts) -> list[float]:
    """Return the bytes of weights and cache of parts of a layer, by the way in which columns divide them.

    Parts of a block count as so much of it.
    """
    float_bytes = held.types.float_bytes
    sizes = [0.0] * _WAYS
    if parts.has_attention:
        sizes[_HEADS] += spec.cache_features * float_bytes * held.cache_tokens
    of_attention, of_block = unit_bytes([parts], 1.0, 0.0)[0], unit_bytes([parts], 0.0, 1.0)[0]
    for name, shape in layer_shapes(spec, layer).items():
        share = of_block if in_block(name) else of_attention
        block, _, tensor = name.rpartition(".")
        if tensor in ("q", "k", "v", "o"):
            way = _HEADS
        elif tensor in ("gate", "up", "down"):
            way = {"": _FFN, "shared": _SHARED, "experts": _EXPERTS}[block]
        else:
            way = _EVEN
        coding = coding_of(spec, f"layers.0.{name}", held.types.dtype)
        if coding is None:
            sizes[way] += share * tensor_bytes(shape, None, float_bytes)
            continue
        outputs, inputs = shape
        sizes[way] += share * coding.code_bytes(inputs, outputs)
        if tensor not in HIDDEN_IN:
            groups = 1 if way in _SCALES else coding.groups(inputs)
            sizes[_SCALES.get(way, way)] += share * outputs * groups * coding.scale_bytes(float_bytes) / coding.block
    return sizes
