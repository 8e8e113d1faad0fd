"""Qwen3-Next and the text model of Qwen3.5: linear attention in most layers, gated in the others."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_MATRIX_ROWS, read_text_model, require_class
from wse.models.configs.expert_config import add_scaled_mixture, sparse_step_layers
from wse.models.configs.linear_config import read_hybrid
from wse.models.family import Family, FileSlice, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES, expert_slices
from wse.models.tensors.tensor_names import LayerTensor, canonical_tensors, rows_of_heads, rows_of_matrix, text_tensors


def read_qwen3_next(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3-Next model from its config.json.

    Most layers have linear attention, the others gated attention. All have experts.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3NextForCausalLM")
    has_experts = sparse_step_layers(config)
    spec = read_hybrid(config)
    config.require("use_sliding_window", (False,), "no layer has a window; supported: false")
    return add_scaled_mixture(config, spec, has_experts)


def hybrid_slices(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where the checkpoint of a hybrid model stores a tensor that is part of a larger one.

    A hybrid model has layers with linear attention and layers with full attention. Its checkpoint
    has two tensors that wse divides into several:

    - the queries and gates of full attention, head by head
    - the convolutions of queries, keys and values of linear attention

    The result is () for all other tensors.
    """
    spec = tensor.spec
    if tensor.matrix in ("q", "q_gate"):
        first = spec.head_size if tensor.matrix == "q_gate" else 0
        rows = rows_of_heads(spec.head_count, 2 * spec.head_size, np.arange(first, first + spec.head_size))
        shape = (2 * tensor.shape[0], *tensor.shape[1:])
        return (FileSlice(file_name=tensor.name_in_file("self_attn.q_proj"), file_shape=shape, rows=rows),)
    if tensor.name.startswith("delta.conv_"):
        (part,) = rows_of_matrix(tensor, "linear_attn.conv1d", channels(tensor, "delta.conv_"))
        shape = (part.file_shape[0], 1, tensor.shape[1])
        return (FileSlice(file_name=part.file_name, file_shape=shape, index=(*part.index, 0)),)
    return ()


def channels(tensor: LayerTensor, prefix: str) -> dict[str, int]:
    """Return the number of channels of queries, keys and values of linear attention, keyed by tensor name."""
    linear = tensor.spec.linear
    assert linear is not None
    keys, values = linear.key_heads * linear.key_size, linear.value_heads * linear.value_size
    return {f"{prefix}q": keys, f"{prefix}k": keys, f"{prefix}v": values}


def _inputs_by_head(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a Qwen3-Next checkpoint stores one of the input projections of linear attention.

    wse has six projections: ``q``, ``k``, ``v``, ``z`` (gate), ``b`` (write strength) and ``a``
    (decay). The checkpoint stores them in two matrices, ``in_proj_qkvz`` and ``in_proj_ba``. Each
    matrix contains all rows of key head 0, then all rows of key head 1, and so on. The result is ()
    for all other tensors.
    """
    linear, name = tensor.spec.linear, tensor.name.removeprefix("delta.")
    if linear is None or tensor.name not in [f"delta.{name}" for name in "qkvzba"]:
        return ()
    values = linear.values_per_key * linear.value_size
    matrix, sizes = "qkvz", {"q": linear.key_size, "k": linear.key_size, "v": values, "z": values}
    if name in "ba":
        matrix, sizes = "ba", dict.fromkeys("ba", linear.values_per_key)
    rows_per_head = sum(sizes.values())
    first = sum(size for part, size in sizes.items() if matrix.index(part) < matrix.index(name))
    return (
        FileSlice(
            file_name=tensor.name_in_file(f"linear_attn.in_proj_{matrix}"),
            file_shape=(linear.key_heads * rows_per_head, tensor.spec.hidden_size),
            rows=rows_of_heads(linear.key_heads, rows_per_head, np.arange(first, first + sizes[name])),
        ),
    )


NAMES_OF_LAYER: Final = {
    **SCALED_SHARED_NAMES,
    "delta.log_rate": "linear_attn.A_log",
    "delta.decay_bias": "linear_attn.dt_bias",
    "delta.norm": "linear_attn.norm.weight",
    "delta.o": "linear_attn.out_proj.weight",
    **{f"delta.{name}": f"linear_attn.in_proj_{name}.weight" for name in "zba"},
}
"""Names of the tensors of a layer that are stored separately. Qwen3-Next stores inputs in two matrices."""

QWEN3_NEXT: Final = Family(
    model_types=("qwen3_next",),
    read=read_qwen3_next,
    tensors=partial(canonical_tensors, names=NAMES_OF_LAYER, rules=(_inputs_by_head, hybrid_slices, expert_slices)),
    harmless_tensors=harmless_names(r"mtp\..*"),
)

DENSE: Final = ("qwen3_5", "qwen3_5_text")

MIXTURE: Final = ("qwen3_5_moe", "qwen3_5_moe_text")

CLASSES: Final = tuple(
    f"Qwen3_5{kind}For{task}" for kind in ("", "Moe") for task in ("CausalLM", "ConditionalGeneration")
)


def read_qwen3_5(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3.5 model from its config.json.

    Its text model is Qwen3-Next with experts or dense blocks.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, *CLASSES)
    return read_text_model(config, _read_qwen3_5_text, QWEN3_5.harmless_keys)


def _read_qwen3_5_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    require_class(config, *CLASSES)
    config.require("model_type", (*DENSE, *MIXTURE), f"give {DENSE[1]} or {MIXTURE[1]}")
    has_mixture = config.value("model_type") in MIXTURE
    if has_mixture:  # configs of mixtures have no width of dense blocks
        expert_width = config.integer("moe_intermediate_size", 1, MAX_MATRIX_ROWS)
        config = config.with_defaults({"intermediate_size": expert_width})
        config.require("mlp_only_layers", ([],), "every layer has experts; supported: []")
    config.require("attn_output_gate", (True,), "the output of attention is always gated; supported: true")
    spec = read_hybrid(config)
    return add_scaled_mixture(config, spec) if has_mixture else spec


def inputs_in_order(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a Qwen3.5 checkpoint stores the queries, keys or values of linear attention."""
    if tensor.name not in ("delta.q", "delta.k", "delta.v"):
        return ()
    return rows_of_matrix(tensor, "linear_attn.in_proj_qkv", channels(tensor, "delta."))


QWEN3_5: Final = Family(
    model_types=(*DENSE, *MIXTURE),
    read=read_qwen3_5,
    tensors=partial(text_tensors, names=NAMES_OF_LAYER, rules=(inputs_in_order, hybrid_slices, expert_slices)),
    harmless_keys=frozenset(
        {
            *("vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"),
            *("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        }
    ),
    harmless_tensors=harmless_names(r"mtp\..*", r"model\.visual\..*"),
)
