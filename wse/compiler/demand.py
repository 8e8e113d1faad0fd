"""Demand of a request: bytes of the embedding, layers and head that a mapping strategy places.

A strategy has no knowledge of models. It sees a model as bytes per layer and as functions that map
the size of a region to bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from wse.compiler.column_bytes import block_bytes, column_bytes, kv_bytes
from wse.compiler.options import BASELINE, MODEL, PRODUCT, Options
from wse.compiler.passes.tiling.contraction import WeightTypes
from wse.compiler.score_bytes import score_bytes
from wse.hardware.spec import WaferSpec
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, in_block, layer_shapes, layer_user_bytes, tensor_bytes
from wse.number_formats import ELEMENT_BYTES
from wse_mappings.regions.demand import Demand


def demand_of(spec: ModelSpec, wafer: WaferSpec, options: Options) -> Demand:
    """Return the layer sizes and wafers from which mappings build layouts.

    A mapping is a rule for placing layers, and a layout divides wafers into regions of PEs. The
    result contains the bytes of layers and vocabulary tables, and the number and mesh size of the
    wafers. ``Demand.as_released`` is set for the baseline schedule (the step order of the published
    research code). Layouts then follow an earlier rule, because the costs of this schedule were
    fitted with that rule to two speeds published in August 2024.

    Args:
        spec: Model.
        wafer: Wafer on which layers are placed.
        options: The request. Its scope says whether to place the whole model, only its layers, or a
            single matrix product.
    """
    layer_bytes, expert_bytes, attention_bytes = _layers(spec, options)
    table = float(spec.vocab_size * spec.hidden_size * ELEMENT_BYTES[options.activation_type])
    model = options.scope == MODEL
    weight_types = WeightTypes.from_options(options)
    return Demand(
        layer_bytes=layer_bytes,
        expert_bytes=expert_bytes,
        attention_bytes=attention_bytes,
        embedding_bytes=table if model else None,
        head_bytes=table if model and not spec.tied_embedding else None,
        experts=spec.experts.count if spec.experts is not None else 0,
        wafers=options.wafers,
        mesh_rows=wafer.mesh_rows,
        mesh_cols=wafer.mesh_cols,
        region=options.region,
        listed=options.listed,
        listed_transposed=options.listed_transposed,
        pe_bytes=float(wafer.sram_bytes_per_pe),
        row_share=options.cache.of(_row_share, 4)(replace(spec, layers=()), weight_types),
        column_bytes=column_bytes(spec, options),
        kv_bytes=kv_bytes(spec, options),
        block_bytes=block_bytes(spec, options),
        score_bytes=score_bytes(spec, options),
        as_released=options.schedule == BASELINE,
        cache=options.cache,
    )


def _row_share(spec: ModelSpec, weight_types: WeightTypes) -> Callable[[int], float]:
    """Return a function that computes which fraction of its column's bytes the fullest PE stores.

    The argument of the function is the number of rows of the region. The fraction may exceed 1 /
    rows, because the fullest PE also stores padding, and scales of quantised weights that the bytes
    of the column do not include. Results are cached.
    """
    return cache(lambda rows: weight_types.row_share(spec, rows))


def _layers(spec: ModelSpec, options: Options) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the size of each layer in bytes, as three tuples with one number per layer.

    Returns:
        Three tuples of bytes per layer:

        1. weights and KV cache, without the experts
        2. the experts
        3. everything outside the feed-forward block, such as attention and the KV cache

        If only a matrix product is compiled, the first two tuples have one placeholder entry and
        the last is empty.
    """
    if options.scope == PRODUCT:
        return (1.0,), (0.0,), ()
    float_bytes = ELEMENT_BYTES[options.activation_type]

    @cache
    def layer_bytes(layer: Layer) -> tuple[float, float, float]:
        """Return the bytes of a layer: (without experts, experts, outside the feed-forward block).

        The first and the last number include the KV cache or state.
        """
        weights = {
            name: tensor_bytes(shape, coding_of(spec, f"layers.0.{name}", options.dtype), float_bytes)
            for name, shape in layer_shapes(spec, layer).items()
        }
        experts = sum(size for name, size in weights.items() if name.startswith("experts."))
        user_bytes = layer_user_bytes(spec, layer, options.context, float_bytes) * options.planned_users
        block = sum(size for name, size in weights.items() if in_block(name))
        total = sum(weights.values()) + user_bytes
        return total - experts, experts, total - block

    layers = [layer_bytes(layer) for layer in spec.layers]
    rest, experts, attention = zip(*layers, strict=True)
    return rest, experts, attention
