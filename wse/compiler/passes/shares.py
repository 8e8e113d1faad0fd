"""What the embedding, each layer and the head hold, in bytes of weights and cache: what regions are sized by."""

from __future__ import annotations

from functools import cache

from wse.compiler.options import MODEL, PRODUCT, Options
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import is_linear, layer_shapes, tensor_bytes
from wse.number_formats import ELEMENT_BYTES


def shares(spec: ModelSpec, options: Options) -> list[float]:
    """Bytes of the embedding, of every layer, and of the head where its table is its own; of layers alone without."""
    if options.scope == PRODUCT:
        return [1.0]
    float_bytes = ELEMENT_BYTES[options.activation_type]

    @cache
    def layer_bytes(layer: Layer) -> float:
        tensors = layer_shapes(spec, layer).items()
        weights = sum(
            tensor_bytes(shape, options.dtype if is_linear(f"layers.0.{name}") else "", float_bytes)
            for name, shape in tensors
            if not (options.experts_apart and name.startswith("experts."))
        )
        return weights + cache_bytes_per_token(spec, float_bytes) * options.context * options.batch

    layers = [layer_bytes(layer) for layer in spec.layers]
    if options.scope != MODEL:
        return layers
    table = float(spec.vocab_size * spec.hidden_size * float_bytes)
    return [table, *layers] + ([] if spec.tied_embedding else [table])


def cache_bytes_per_token(spec: ModelSpec, float_bytes: int) -> float:
    """Bytes that a token adds to the cache of one layer."""
    if spec.latent is not None:
        return (spec.latent.kv_rank + spec.latent.rope_size) * float_bytes
    return 2 * spec.kv_head_count * spec.head_size * float_bytes
