"""GLM (GLM-4 of 2024), GLM-4-0414 and GLM-4-MoE (GLM-4.5 to 4.7): rotation of half of each head.

- GLM: biases for queries, keys and values. Gate and up share one matrix.
- GLM-4-0414: GLM with norms after attention and feed-forward blocks.
- GLM-4-MoE: DeepSeek-V3 routing. The first layers have dense feed-forward blocks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import Heads, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, harmless_names_beyond
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors
from wse.models.tensors.tensor_names import NAMES, adjacent_pairs, canonical_tensors, gate_and_up


def read_glm(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GlmForCausalLM")
    return _read_dense(config)


def read_glm4(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-0414 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4ForCausalLM")
    return replace(_read_dense(config), post_norms=True)


def _read_dense(config: ConfigReader) -> ModelSpec:
    """Return the specification of a GLM or GLM-4-0414 model, without the norms after its blocks.

    ``attention_bias`` applies to queries, keys and values, but not to the output.
    """
    spec = _read_rotated_half(config, read_heads(config, default_size=128, requires_kv_count=True))
    return replace(spec, qkv_bias=config.flag("attention_bias", default=True))


def read_glm4_moe(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-MoE model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4MoeForCausalLM")
    spec = _read_rotated_half(config, read_heads(config, requires_kv_count=True))
    experts = read_sigmoid_experts(config, groups=1, chosen_groups=1, scale=1.0)
    return replace(
        with_mixture(spec, experts, layers_with_experts(config, unstated_dense=1)),
        qkv_bias=config.flag("attention_bias", default=False),
        head_norm="rms" if config.flag("use_qk_norm", default=False) else "",
    )


def _read_rotated_half(config: ConfigReader, heads: Heads) -> ModelSpec:
    """Return the specification of a decoder that rotates half of each head by default."""
    return read_decoder(config, heads, rope=read_rope(config, heads.size, rotated_fraction=0.5))


NORM_NAMES: Final = {
    "post_attention_norm": "post_self_attn_layernorm.weight",
    "post_mlp_norm": "post_mlp_layernorm.weight",
}
dense_tensors: Final = partial(canonical_tensors, rules=(adjacent_pairs, gate_and_up))
FAMILIES: Final = (
    Family(model_types=("glm",), read=read_glm, tensors=dense_tensors),
    Family(model_types=("glm4",), read=read_glm4, tensors=partial(dense_tensors, names={**NAMES, **NORM_NAMES})),
    Family(
        model_types=("glm4_moe",),
        read=read_glm4_moe,
        tensors=expert_tensors,
        harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers"}),
        harmless_tensors=harmless_names_beyond,
    ),
)
