"""Bytes per column of PEs as a function of a region's number of columns, including padding.

Mapping strategies use these functions to choose the width of regions before anything is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from wse.compiler.options import Options
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.passes.tiling.dimensions import EXPERTS, FFN, HIDDEN_IN, SHARED
from wse.compiler.score_bytes import fullest_head_places
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, in_block, layer_shapes, layer_user_bytes, tensor_bytes
from wse_mappings.cuts.expert_groups import columns_of_expert, experts_of_column
from wse_mappings.cuts.layer_parts import LayerRange, Parts, unit_bytes
from wse_mappings.cuts.widths import ColumnBytes
from wse_mappings.rounding import ceil_div

_HEADS, _EXPERTS, _FFN, _SHARED, _VOCABULARY, _EVEN, _EXPERT_SCALES, _FFN_SCALES, _SHARED_SCALES = range(9)
_WINDOW_HEADS = 9
"""Ways to divide bytes over the columns of a region.

The first five divide by features of heads, experts, a dense block or a shared block, and by
vocabulary entries. The sixth divides evenly. The next three are the scales of one quantisation
group, for matrices that contract over features of experts, a dense block and a shared block. The
last one divides by features of the heads of layers with a sliding window.
"""
_SCALES = {_EXPERTS: _EXPERT_SCALES, _FFN: _FFN_SCALES, _SHARED: _SHARED_SCALES}
_WAY_COUNT = _WINDOW_HEADS + 1


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
    shares = cache(lambda cols: _column_fractions(shape, types, placement(cols), cols))
    padding = cache(lambda cols, parts: _padding_of_parts(shape, placement(cols), cols, parts))

    @cache
    def bytes_of_region(layers: frozenset[tuple[tuple[Layer, Parts], int]], tables: int) -> ColumnBytes:
        """Return a function from a region's column count to the bytes on its fullest column.

        Args:
            layers: Content of the region: ((layer, parts of the layer), number of such layers) for
                each distinct layer.
            tables: Number of vocabulary tables in the region: embedding, head or both.
        """
        total_sizes, split_blocks = [0.0] * _WAY_COUNT, []
        total_sizes[_VOCABULARY] += tables * table_bytes
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
            storage.users * sum(user_bytes(layer) for layer in kinds if _way_of_attention(spec, layer) == way)
            for way in (_EVEN, _HEADS, _WINDOW_HEADS)
        )
        return lambda cols: (
            linear / cols
            + attention * _head_fraction(shape, cols)
            + windowed * _head_fraction(shape.with_window_heads, cols)
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


def _column_fractions(spec: ModelSpec, weight_types: WeightTypes, placement: str, cols: int) -> tuple[float, ...]:
    """Return the fraction of a tensor that the fullest column of PEs stores.

    The fraction depends on how the tensor is partitioned across the columns of a region: evenly, by
    attention heads, by features of a feed-forward block, and so on. Each way has an index, such as
    ``_HEADS``.

    Args:
        spec: Model.
        weight_types: Weight and activation types.
        placement: Placement of experts, as a name or a number of groups.
        cols: Columns of the region.

    Returns:
        One fraction for each way, in order of the indices. The three numbers for the scales of
        quantised weights are not fractions: they count the quantisation groups of which the column
        stores weights.
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
        _head_fraction(spec, cols),
        expert_fraction,
        ffn_cut.width / max(1, spec.ffn_size),
        shared_cut.width / max(1, shared_size),
        ceil_div(spec.vocab_size, cols) / spec.vocab_size,
        1 / cols,
        expert_groups,
        ffn_cut.touched,
        shared_cut.touched,
        _head_fraction(spec.with_window_heads, cols),
    )


def _way_of_attention(spec: ModelSpec, layer: Layer) -> int:
    """Return how the KV cache or state of a layer is divided over columns."""
    if layer.linear:
        return _EVEN
    return _HEADS if layer.window is None or spec.window_heads is None else _WINDOW_HEADS


def _head_fraction(spec: ModelSpec, cols: int) -> float:
    """Return the fraction of the bytes of attention heads that the fullest column of PEs stores."""
    if spec.latent is not None:
        return 1 / cols
    heads, features = fullest_head_places(spec, cols)
    return heads * features / (spec.kv_head_count * spec.head_size)


def _padding_of_parts(spec: ModelSpec, placement: str, cols: int, parts: Parts) -> list[tuple[int, float]]:
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
        (index, added fraction) pairs. The index is ``_FFN`` for a dense block, ``_SHARED`` for
        shared experts and ``_EXPERTS`` for routed experts. The fraction is the added padding
        relative to the bytes without it. Blocks of which the region stores no features are omitted.
    """
    lines = [(_FFN, spec.ffn_size, cols)]
    if spec.experts is not None:
        expert_cols = columns_of_expert(cols, spec.experts.count, placement)
        lines += [(_SHARED, spec.experts.shared_size, cols), (_EXPERTS, spec.experts.ffn_size, expert_cols)]
    added_fractions = []
    for way, extent, columns in lines:
        first, last = parts.features(extent)
        if last > first:
            whole_fraction = ceil_div(extent, columns) / extent
            parts_fraction = ceil_div(last - first, columns) / (last - first)
            added_fractions.append((way, parts_fraction / whole_fraction - 1))
    return added_fractions


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
        the constants ``_HEADS`` to ``_WINDOW_HEADS``.
    """
    float_bytes = storage.types.float_bytes
    sizes = [0.0] * _WAY_COUNT
    if parts.has_attention:
        user_bytes = layer_user_bytes(spec, layer, storage.context, float_bytes)
        sizes[_way_of_attention(spec, layer)] += user_bytes * storage.users
    attention_fraction, block_fraction = unit_bytes([parts], 1.0, 0.0)[0], unit_bytes([parts], 0.0, 1.0)[0]
    for name, shape in layer_shapes(spec, layer).items():
        fraction = block_fraction if in_block(name) else attention_fraction
        block, _, tensor = name.rpartition(".")
        if not block and tensor in ("q", "k", "v", "q_gate", "o"):
            way = _way_of_attention(spec, layer)
        elif tensor in ("gate", "up", "down"):
            way = {"": _FFN, "shared": _SHARED, "experts": _EXPERTS}[block]
        else:
            way = _EVEN
        coding = coding_of(spec, f"layers.0.{name}", storage.types.dtype)
        if coding is None:
            sizes[way] += fraction * tensor_bytes(shape, None, float_bytes)
            continue
        outputs, inputs = shape
        sizes[way] += fraction * coding.code_bytes(inputs, outputs)
        if tensor not in HIDDEN_IN:
            groups = 1 if way in _SCALES else coding.groups(inputs)
            sizes[_SCALES.get(way, way)] += fraction * outputs * groups * coding.scale_bytes(float_bytes) / coding.block
    return sizes
