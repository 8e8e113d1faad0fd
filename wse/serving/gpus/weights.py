"""Weights on GPUs: number formats of published checkpoints, and sizes of a model's parts.

Four-bit checkpoints of mixtures of experts store only the routed experts in 4 bits and everything
else in 16: gpt-oss (arXiv 2508.10925), and the published DeepSeek-R1 in nvfp4 and Kimi-K2.5 in
int4. In 8-bit checkpoints, all linear layers have 8 bits. Embedding and head always have 16 bits.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from wse.errors import UnknownName
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, in_block, is_linear, layer_shapes, tensor_bytes, tensor_shapes

PLAIN_BITS: Final = 16
"""Bits of values to which no number format applies."""


SMALL_CACHE_BITS: Final = 8
"""Bits per element of the KV cache that is usual with weights in fp8, mxfp4 and nvfp4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """Number format of weights on GPUs.

    Attributes:
        name: Name of the format.
        bits: Bits per weight, including its fraction of a scale that several weights share.
        product_bits: Bits of the elements that are multiplied, if tensor cores support them.
        cache_bits: Bits per element of the KV cache that is usual with such weights.
    """

    name: str
    bits: float
    product_bits: int
    cache_bits: int = 16

    @property
    def is_of_four_bits(self) -> bool:
        """True if a weight has about 4 bits."""
        return self.bits < 8


FORMATS: Final = {
    weights.name: weights
    for weights in (
        WeightFormat(name="float32", bits=32, product_bits=16),
        WeightFormat(name="float16", bits=16, product_bits=16),
        WeightFormat(name="bfloat16", bits=16, product_bits=16),
        WeightFormat(name="fp8", bits=8, product_bits=8, cache_bits=SMALL_CACHE_BITS),
        WeightFormat(name="int8", bits=8, product_bits=16),
        WeightFormat(name="int4", bits=4.5, product_bits=16),
        WeightFormat(name="mxfp4", bits=4.25, product_bits=4, cache_bits=SMALL_CACHE_BITS),
        WeightFormat(name="nvfp4", bits=4.5, product_bits=4, cache_bits=SMALL_CACHE_BITS),
    )
}
"""Formats, keyed by name.

Scales have 16 bits per 32 weights in int4, 8 bits per 32 weights in mxfp4, and 8 bits per 16
weights in nvfp4.
"""


def weight_format(spec: ModelSpec, name: str | None = None) -> WeightFormat:
    """Return the number format with a given name; by default, the format of the published weights.

    Raises:
        UnknownName: There is no such format.
    """
    name = name or spec.weight_type
    if name not in FORMATS:
        raise UnknownName("element type", name, FORMATS)
    return FORMATS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """A group of identical layers of a model, with the number of weights in each part of one layer.

    Attributes:
        count: Number of these layers.
        linear: Whether the layers have a state of constant size instead of a KV cache.
        span: Number of tokens that a token attends to; 0 for all earlier tokens.
        windowed: Whether the layers have a sliding window, and thus possibly other heads.
        attention: Number of weights in the projections and norms of attention.
        block: Number of weights in the dense feed-forward block, or in router and shared experts.
        expert: Number of weights in one routed expert; 0 if there are none.
    """

    count: int
    linear: bool
    span: int
    windowed: bool
    attention: int
    block: int
    expert: int


def layer_kinds(spec: ModelSpec) -> tuple[LayerKind, ...]:
    """Return the groups of identical layers of a model, with the number of layers in each group."""
    return tuple(_kind(spec, layer, count) for layer, count in Counter(spec.layers).items())


def _kind(spec: ModelSpec, layer: Layer, count: int) -> LayerKind:
    """Return a group of ``count`` layers that are identical to a given layer."""
    values = {name: math.prod(shape) for name, shape in layer_shapes(spec, layer).items()}
    routed_values = sum(
        size for name, size in values.items() if name.startswith("experts.") and is_linear(f"layers.0.{name}")
    )
    experts = spec.experts.count if spec.experts is not None else 1
    return LayerKind(
        count=count,
        linear=layer.linear,
        span=layer.window or layer.chunk or 0,
        windowed=layer.window is not None,
        attention=sum(size for name, size in values.items() if not in_block(name)),
        block=sum(size for name, size in values.items() if in_block(name) and not name.startswith("experts.")),
        expert=routed_values // experts,
    )


def plain_bytes_per_value(spec: ModelSpec, weights: WeightFormat) -> float:
    """Return the size in bytes of one weight of attention or a dense feed-forward block.

    In a mixture of experts, 4-bit formats apply only to the experts. All other weights then have 16
    bits.
    """
    bits = PLAIN_BITS if spec.experts is not None and weights.is_of_four_bits else weights.bits
    return bits / 8


def table_bytes(spec: ModelSpec) -> float:
    """Return the size in bytes of the output head, which is as large as the embedding table."""
    return spec.vocab_size * spec.hidden_size * PLAIN_BITS / 8


def model_bytes(spec: ModelSpec, weights: WeightFormat, *, with_tables: bool = True) -> float:
    """Return the total size of a model's weights in bytes, with each weight counted once.

    In the format of the published weights, this is the size of the checkpoint.

    Args:
        spec: The model.
        weights: Format of the linear layers.
        with_tables: Whether to count the weights outside of layers, such as the embedding and head.
    """
    return sum(
        _tensor_bytes(spec, name, shape, weights)
        for name, shape in tensor_shapes(spec).items()
        if with_tables or name.startswith("layers.")
    )


def _tensor_bytes(spec: ModelSpec, name: str, shape: tuple[int, ...], weights: WeightFormat) -> float:
    """Return the size of a tensor in bytes, with its scales.

    Args:
        spec: The model.
        name: Name of the tensor in wse.
        shape: Shape of the tensor.
        weights: Format of the linear layers.
    """
    if weights.name == spec.packing.method:  # the matrices and scales of the checkpoint
        return tensor_bytes(shape, coding_of(spec, name, weights.name), PLAIN_BITS // 8)
    if not is_linear(name):
        return math.prod(shape) * PLAIN_BITS / 8
    return math.prod(shape) * (weights.bits / 8 if ".experts." in name else plain_bytes_per_value(spec, weights))
