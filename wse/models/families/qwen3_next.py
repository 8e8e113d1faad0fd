"""Qwen3-Next: linear attention in most layers, gated attention in the others, and experts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import (
    LARGEST_TABLE,
    MAX_HEADS,
    WIDEST,
    layer_count,
    read_decoder,
    read_heads,
    require_class,
)
from wse.models.configs.expert_config import add_experts, read_experts, sparse_step_layers, with_mixture
from wse.models.configs.layer_kinds import linear_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family, FileSlice, harmless_names
from wse.models.spec import LinearAttention, ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES, expert_slices
from wse.models.tensors.tensor_names import LAYERS, NAMES, Shape, canonical_tensors, rows_of_heads

UNSTATED_HEAD_SIZE: Final = 256
UNSTATED_ROTATED_FRACTION: Final = 0.25
UNSTATED_INTERVAL: Final = 4
MAX_TAPS: Final = 64


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a Qwen3-Next model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3NextForCausalLM")
    heads = read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True)
    count = layer_count(config)
    has_experts = sparse_step_layers(config, count)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="qwen3_next",
        heads=heads,
        rope=read_rope(config, heads.size, rotated_fraction=UNSTATED_ROTATED_FRACTION),
        layers=add_experts(linear_layers(config, count, UNSTATED_INTERVAL), has_experts),
    )
    experts = replace(
        read_experts(config, "moe_intermediate_size"),
        normalised=config.flag("norm_topk_prob", default=True),
        shared_size=config.integer("shared_expert_intermediate_size", 1, LARGEST_TABLE, default=512),
        shared_gate=True,
    )
    config.require("use_sliding_window", (False,), "no layer has a window; supported: false")
    biased = config.flag("attention_bias", default=False)
    return replace(
        with_mixture(spec, has_experts, experts),
        head_norm="rms",
        qkv_bias=biased,
        output_bias=biased,
        attention_gate=True,
        linear=read_linear_attention(config),
        norm_unit_offset=True,
    )


def read_linear_attention(config: ConfigReader) -> LinearAttention:
    """Return the sizes of linear attention that a config describes.

    Args:
        config: Reader of the model's config.

    Raises:
        BadModel: A value is impossible, or the number of value heads is not a multiple of the
            number of key heads.
    """
    key_heads = config.integer("linear_num_key_heads", 1, MAX_HEADS, default=16)
    value_heads = config.integer("linear_num_value_heads", 1, MAX_HEADS, default=32)
    if value_heads % key_heads:
        config.refuse("linear_num_value_heads", value_heads, f"give a multiple of linear_num_key_heads = {key_heads}")
    return LinearAttention(
        key_heads=key_heads,
        value_heads=value_heads,
        key_size=config.integer("linear_key_head_dim", 1, WIDEST, default=128),
        value_size=config.integer("linear_value_head_dim", 1, WIDEST, default=128),
        taps=config.integer("linear_conv_kernel_dim", 2, MAX_TAPS, default=4),
    )


_NAMES: Final = {
    **NAMES,
    **SCALED_SHARED_NAMES,
    "delta.log_rate": "linear_attn.A_log",
    "delta.decay_bias": "linear_attn.dt_bias",
    "delta.norm": "linear_attn.norm.weight",
    "delta.o": "linear_attn.out_proj.weight",
}


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Qwen3-Next model with its location in a checkpoint.

    The file stores the queries of full attention and their gates in one matrix, head by head. In
    linear attention, one matrix has the queries, keys, values and gates of each key head, another
    one has its write strengths and decays, and one convolution has the channels of all heads.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return the slices of checkpoint tensors that make up one tensor of the model.

        The result is () for tensors that are stored unchanged.

        Args:
            name: Name of the tensor in wse, without the layer prefix.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        prefix = f"{LAYERS}{layer}."
        if name.removesuffix("_bias") in ("q", "q_gate"):
            return (_queries(name, spec, prefix, shape),)
        if name.startswith("delta.conv_"):
            return (_convolution(name[-1], spec, prefix),)
        if name.startswith("delta.") and name not in _NAMES:
            return (_delta_inputs(name[-1], spec, prefix),)
        return expert_slices(name, spec, f"{prefix}mlp.experts", file_names)

    return canonical_tensors(spec, _NAMES, slices_of=slices_of)


def _queries(name: str, spec: ModelSpec, prefix: str, shape: Shape) -> FileSlice:
    """Return the rows of the query projection that compute queries or their gates.

    Args:
        name: ``q`` or ``q_gate``, or the name of a bias.
        spec: Specification of the model.
        prefix: Start of the layer's names in the file.
        shape: Shape of the tensor in wse.
    """
    size, suffix = spec.head_size, "bias" if name.endswith("_bias") else "weight"
    first = size if name.startswith("q_gate") else 0
    return FileSlice(
        file_name=f"{prefix}self_attn.q_proj.{suffix}",
        file_shape=(2 * shape[0], *shape[1:]),
        rows=rows_of_heads(spec.head_count, 2 * size, np.arange(first, first + size)),
    )


def _delta_inputs(name: str, spec: ModelSpec, prefix: str) -> FileSlice:
    """Return the rows of an input projection of linear attention that make up one tensor.

    Args:
        name: Name of the tensor in wse without ``delta.``, such as ``q``.
        spec: Specification of the model.
        prefix: Start of the layer's names in the file.
    """
    linear = spec.linear
    assert linear is not None
    values = linear.values_per_key * linear.value_size
    matrix, sizes = "qkvz", {"q": linear.key_size, "k": linear.key_size, "v": values, "z": values}
    if name in "ba":
        matrix, sizes = "ba", dict.fromkeys("ba", linear.values_per_key)
    rows_per_head = sum(sizes.values())
    first = sum(size for part, size in sizes.items() if matrix.index(part) < matrix.index(name))
    return FileSlice(
        file_name=f"{prefix}linear_attn.in_proj_{matrix}.weight",
        file_shape=(linear.key_heads * rows_per_head, spec.hidden_size),
        rows=rows_of_heads(linear.key_heads, rows_per_head, np.arange(first, first + sizes[name])),
    )


def _convolution(name: str, spec: ModelSpec, prefix: str) -> FileSlice:
    """Return the channels of the convolution that belong to queries, keys or values.

    Args:
        name: ``q``, ``k`` or ``v``.
        spec: Specification of the model.
        prefix: Start of the layer's names in the file.
    """
    linear = spec.linear
    assert linear is not None
    keys, values = linear.key_heads * linear.key_size, linear.value_heads * linear.value_size
    first = "qkv".index(name) * keys
    return FileSlice(
        file_name=f"{prefix}linear_attn.conv1d.weight",
        file_shape=(2 * keys + values, 1, linear.taps),
        index=(slice(first, first + (values if name == "v" else keys)), 0),
    )


FAMILY: Final = Family(
    model_types=("qwen3_next",), read=read, tensors=tensors, harmless_tensors=harmless_names(r"mtp\..*")
)
