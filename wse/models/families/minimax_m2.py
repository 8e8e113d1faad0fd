"""MiniMax-M2: experts selected by corrected sigmoid scores, and a norm of all heads together.

A part of each head is rotated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_WIDTH, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import numbered_expert_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a MiniMax-M2 model from its config.json.

    Published configs give the number of rotary dimensions per head as ``rotary_dim``.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MiniMaxM2ForCausalLM")
    heads = read_heads(config, default_size=128, requires_kv_count=True)
    fraction = config.integer("rotary_dim", 2, MAX_WIDTH, default=heads.size) / heads.size
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, base=5e6, rotated_fraction=fraction))
    config.require("rotary_dim", (spec.rotary_size,), f"contradicts {spec.rotary_size} rotated features; keep one")
    config.require("use_qk_norm", (True,), "heads are always normalised; supported: true")
    config.require("qk_norm_type", ("per_layer",), "supported: per_layer")
    config.require("scoring_func", ("sigmoid",), "supported: sigmoid")
    config.require("use_routing_bias", (True,), "experts are selected with a correction; supported: true")
    config.require("shared_intermediate_size", (0,), "there is no shared expert; supported: 0")
    config.require("attn_type_list", ([1] * spec.layer_count,), "supported: 1 (full attention) in every layer")
    experts = replace(read_experts(config, "intermediate_size"), scoring="sigmoid", correction=True)
    return replace(with_mixture(spec, experts), head_norm="rms_all")


FAMILY: Final = Family(
    model_types=("minimax_m2",),
    read=read,
    tensors=numbered_expert_tensors,
    harmless_keys=frozenset(
        {
            *("mlp_intermediate_size", "num_mtp_modules", "mtp_transformer_layers", "use_mtp", "max_model_len"),
            "shared_moe_mode",  # of the shared expert, which these models do not have
        }
    ),
    harmless_tensors=harmless_names(r"model\.mtp.*"),
)
