"""Bytes per column of PEs as a function of a region's number of columns, including padding.

Mapping strategies use these functions to choose the width of regions before anything is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from wse.compiler.column_fractions import (
    SCALES,
    Way,
    column_fractions,
    head_fraction,
    padding_of_parts,
    way_of_attention,
)
from wse.compiler.options import Options
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.dimensions import HIDDEN_IN
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, in_block, layer_shapes, layer_user_bytes, tensor_bytes
from wse_mappings.cuts.layer_parts import LayerRange, Parts, unit_bytes
from wse_mappings.cuts.widths import ColumnBytes
from wse_mappings.rounding import ceil_div


class _Storage(NamedTuple):
    """Settings that determine a layer's size in bytes, apart from the shapes of its tensors.

    Attributes:
        types: Weight and activation types.
        experts: Requested placement of experts.
        context: Number of tokens in the KV cache of a user.
        users: Number of users.
    """

    types: WeightTypes
    experts: str
    context: int
    users: float


def _storage_of(options: Options) -> _Storage:
    """Return the settings of a request that determine a layer's size in bytes."""
    return _Storage(WeightTypes.from_options(options), options.experts, options.context, options.planned_users)


def column_bytes(spec: ModelSpec, options: Options) -> Callable[[LayerRange, int], ColumnBytes]:
    """Return a function that computes how many bytes the fullest column of a region stores.

    A region is a rectangle of PEs that stores some layers. Attention heads, feed-forward blocks and
    the vocabulary are divided into whole features or entries per column, as in the pass
    `wse.compiler.passes.shard`. Latent attention, linear attention and one-dimensional tensors are
    treated as evenly divided.

    Quantised weights have one scale per group of inputs. For matrices whose inputs are partitioned
    across columns, the scales of every group that the column touches are counted. For matrices
    whose inputs are the hidden features, `WeightTypes.row_share` counts the scales instead. The
    scales of attention are counted once, although two columns may store the same scale.

    Args:
        spec: Model.
        options: The request, with element types, placement of experts, context and batch.

    Returns:
        A function with two arguments: the layers of a region, and the number of its vocabulary
        tables. It returns another function, which maps the number of columns to the bytes on the
        fullest column. Regions with the same contents share the same object.
    """
    return options.cache.of(_column_bytes, 4)(spec, _storage_of(options))


def _column_bytes(spec: ModelSpec, storage: _Storage) -> Callable[[LayerRange, int], ColumnBytes]:
    """Return the function that `column_bytes` returns, with caches for its intermediate results.

    The function computes the bytes on the fullest column of PEs of a region.
    """
    types, shape = storage.types, replace(spec, layers=())
    table_bytes = spec.vocab_size * spec.hidden_size * types.float_bytes
    bytes_of_layer = cache(lambda layer, parts: _layer_bytes(spec, storage, layer, parts))
    placement = cache(lambda cols: types.expert_placement(shape, storage.experts, cols))
    shares = cache(lambda cols: column_fractions(shape, types, placement(cols), cols))
    padding = cache(lambda cols, parts: padding_of_parts(shape, placement(cols), cols, parts))

    @cache
    def bytes_of_region(layers: frozenset[tuple[tuple[Layer, Parts], int]], tables: int) -> ColumnBytes:
        """Return a function from a region's column count to the bytes on its fullest column.

        Args:
            layers: Content of the region: ((layer, parts of the layer), number of such layers) for
                each distinct layer.
            tables: Number of vocabulary tables in the region: embedding, head or both.
        """
        total_sizes, split_blocks = [0.0] * len(Way), []
        total_sizes[Way.VOCABULARY] += tables * table_bytes
        for (layer, parts), count in layers:
            sizes = bytes_of_layer(layer, parts)
            if parts.cuts_block and parts.block is not None:
                split_blocks.append((parts.block, sizes))
            total_sizes = [size + count * added_size for size, added_size in zip(total_sizes, sizes, strict=True)]
        used_ways = [(way, size) for way, size in enumerate(total_sizes) if size]

        def bytes_of(cols: int) -> float:
            """Return the bytes on the fullest column of a region with ``cols`` columns."""
            fractions, total = shares(cols), 0.0
            for way, size in used_ways:
                total += size * fractions[way]
            for parts, sizes in split_blocks:
                for way, added_fraction in padding(cols, parts):
                    total += sizes[way] * fractions[way] * added_fraction
            return total

        return cache(bytes_of)

    @cache
    def bytes_of_layers(layers: LayerRange, tables: int) -> ColumnBytes:
        """Return a function from a region's column count to the bytes on its fullest column.

        Args:
            layers: Layers of the region. The first and the last layer may be incomplete.
            tables: Number of vocabulary tables in the region: embedding, head or both.
        """
        kinds = Counter((spec.layers[layer], parts) for layer, parts in layers.parts)
        return bytes_of_region(frozenset(kinds.items()), tables)

    return bytes_of_layers


def kv_bytes(spec: ModelSpec, options: Options) -> Callable[[LayerRange], ColumnBytes]:
    """Return a function that computes how many bytes of KV caches or states a column stores.

    `column_bytes` counts these bytes too. Rows divide the tokens of a KV cache, so they store equal
    fractions of it. They divide weights by hidden features, and less evenly.

    Args:
        spec: Model.
        options: The request, with element types, context and batch.

    Returns:
        A function from the layers of a region to another function, which maps the number of columns
        to the bytes on the fullest column.
    """
    return options.cache.of(_kv_bytes, 4)(spec, _storage_of(options))


def _kv_bytes(spec: ModelSpec, storage: _Storage) -> Callable[[LayerRange], ColumnBytes]:
    """Return the function that `kv_bytes` returns, with caches for its intermediate results."""
    shape = replace(spec, layers=())
    user_bytes = cache(lambda layer: layer_user_bytes(spec, layer, storage.context, storage.types.float_bytes))

    @cache
    def bytes_of_layers(layers: LayerRange) -> ColumnBytes:
        """Return a function from a region's column count to the bytes on its fullest column."""
        kinds = [spec.layers[layer] for layer, parts in layers.parts if parts.has_attention]
        linear, attention, windowed = (
            storage.users * sum(user_bytes(layer) for layer in kinds if way_of_attention(spec, layer) == way)
            for way in (Way.EVEN, Way.HEADS, Way.WINDOW_HEADS)
        )
        return lambda cols: (
            linear / cols
            + attention * head_fraction(shape, cols)
            + windowed * head_fraction(shape.with_window_heads, cols)
        )

    return bytes_of_layers


def block_bytes(spec: ModelSpec, options: Options) -> ColumnBytes:
    """Return a function that computes the memory per PE column for a token's feed-forward features.

    The features are the results of the gate and up projections of a dense feed-forward block.
    Activations overwrite them and need no additional memory.

    Args:
        spec: Model.
        options: The request, with the element type of sums.

    Returns:
        A function from the number of columns of a region (a rectangle of PEs) to the bytes per
        column.
    """
    features = 0 if all(layer.experts for layer in spec.layers) else spec.ffn_size
    return options.cache.of(_block_bytes, 16)(features, (1 + spec.gated) * options.element_bytes("acc"))


def _block_bytes(features: int, size: int) -> ColumnBytes:
    """Return the function that `block_bytes` returns, for a given number of features.

    Args:
        features: Number of projected features of a dense feed-forward block.
        size: Bytes per feature.
    """
    return lambda cols: float(size * ceil_div(features, cols))


def _layer_bytes(spec: ModelSpec, storage: _Storage, layer: Layer, parts: Parts) -> list[float]:
    """Return the bytes of a layer's tensors, grouped by how they are divided over columns of PEs.

    The bytes include weights and KV caches or states. If a region stores only parts of the
    feed-forward block, only these parts count.

    Args:
        spec: Model.
        storage: Types, expert placement, and number and length of the KV caches.
        layer: The layer.
        parts: The parts of the layer that are stored.

    Returns:
        One number for each way to divide a tensor (by heads, evenly, and so on), in the order of
        `Way`.
    """
    float_bytes = storage.types.float_bytes
    sizes = [0.0] * len(Way)
    if parts.has_attention:
        user_bytes = layer_user_bytes(spec, layer, storage.context, float_bytes)
        sizes[way_of_attention(spec, layer)] += user_bytes * storage.users
    attention_fraction, block_fraction = unit_bytes([parts], 1.0, 0.0)[0], unit_bytes([parts], 0.0, 1.0)[0]
    for name, shape in layer_shapes(spec, layer).items():
        fraction = block_fraction if in_block(name) else attention_fraction
        block, _, tensor = name.rpartition(".")
        if not block and tensor in ("q", "k", "v", "q_gate", "o"):
            way = way_of_attention(spec, layer)
        elif tensor in ("gate", "up", "down"):
            way = {"": Way.FFN, "shared": Way.SHARED, "experts": Way.EXPERTS}[block]
        else:
            way = Way.EVEN
        coding = coding_of(spec, f"layers.0.{name}", storage.types.dtype)
        if coding is None:
            sizes[way] += fraction * tensor_bytes(shape, None, float_bytes)
            continue
        outputs, inputs = shape
        sizes[way] += fraction * coding.code_bytes(inputs, outputs)
        if tensor not in HIDDEN_IN:
            groups = 1 if way in SCALES else coding.groups(inputs)
            sizes[SCALES.get(way, way)] += fraction * outputs * groups * coding.scale_bytes(float_bytes) / coding.block
    return sizes
