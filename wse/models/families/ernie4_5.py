"""ERNIE 4.5: Llama whose files store the features of rotary pairs in adjacent rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_EXPERTS, MAX_MATRIX_ROWS, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import with_mixture
from wse.models.configs.layer_kinds import MAX_LAYERS, layer_count
from wse.models.configs.rope_config import read_rope
from wse.models.expert_traits import Experts
from wse.models.family import Family, FileSlice, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_slices
from wse.models.tensors.tensor_names import LayerTensor, adjacent_pairs, canonical_tensors

UNSTATED_BASE: Final = 500_000.0


def read_dense(config: ConfigReader) -> ModelSpec:
    """Read the specification of an ERNIE 4.5 model without experts from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Ernie4_5ForCausalLM")
    heads = read_heads(config, default_size=128)
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, base=UNSTATED_BASE), tied=True)
    biased = config.flag("use_bias", default=False)
    return replace(spec, qkv_bias=biased, output_bias=biased, ffn_bias=biased)


ERNIE: Final = Family(
    model_types=("ernie4_5",), read=read_dense, tensors=partial(canonical_tensors, rules=(adjacent_pairs,))
)


def read_mixture(config: ConfigReader) -> ModelSpec:
    """Read the specification of a mixture-of-experts ERNIE 4.5 model from its config.json.

    The router adds a correction to softmax scores to select experts.

    Layers from ``moe_layer_start_index`` to ``moe_layer_end_index`` have experts if their index
    plus one is a multiple of ``moe_layer_interval``. An end index of -1 means the last layer.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Ernie4_5_MoeForCausalLM")
    heads, count = read_heads(config), layer_count(config)
    first = config.integer("moe_layer_start_index", 0, MAX_LAYERS, default=1)
    last = config.integer("moe_layer_end_index", -1, MAX_LAYERS, default=-1)
    step = config.integer("moe_layer_interval", 1, MAX_LAYERS, default=1)
    last = count - 1 if last < 0 else last
    has_experts = [first <= index <= last and (index + 1) % step == 0 for index in range(count)]
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, base=UNSTATED_BASE), tied=True)
    config.require("use_bias", (False,), "biases are not supported in this family; supported: false")
    return with_mixture(spec, _experts(config), has_experts)


def _experts(config: ConfigReader) -> Experts:
    """Return the sizes and the routing of the mixture of experts that a config describes.

    All shared experts together are one block, whose width is the sum of their widths.
    """
    count = config.integer("moe_num_experts", 1, MAX_EXPERTS)
    width = config.integer("moe_intermediate_size", 1, MAX_MATRIX_ROWS)
    config.require("moe_gate", ("topk", "top2_fused"), "supported: topk")
    config.require("moe_use_aux_free", (True,), "experts are selected with a correction; supported: true")
    return Experts(
        count=count,
        active=config.integer("moe_k", 1, count),
        ffn_size=width,
        correction=True,
        shared_size=width * config.integer("moe_num_shared_experts", 0, MAX_EXPERTS, default=2),
    )


def _correction_slices(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where the checkpoint stores the correction of router scores: a matrix with one row."""
    if tensor.name != "router_correction":
        return ()
    file_name = f"{tensor.prefix}mlp.moe_statics.e_score_correction_bias"
    return (FileSlice(file_name=file_name, file_shape=(1, *tensor.shape), index=(0,)),)


ERNIE_MOE: Final = Family(
    model_types=("ernie4_5_moe",),
    read=read_mixture,
    tensors=partial(canonical_tensors, rules=(_correction_slices, adjacent_pairs, expert_slices)),
    harmless_keys=frozenset({"moe_norm_min", "moe_capacity", "num_nextn_predict_layers"}),
    harmless_tensors=harmless_names(r"model\.mtp_.*"),
)
