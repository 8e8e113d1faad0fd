"""GLM-4, GLM-4-0414 and GLM-4-MoE (GLM-4.5 to 4.7): RoPE on half of each head."""

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

    Queries, keys and values have biases. Gate and up share one matrix.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GlmForCausalLM")
    return read_dense(config)


def read_dense(config: ConfigReader) -> ModelSpec:
    """Return the specification of a GLM or GLM-4-0414 model, without the norms after its blocks.

    ``attention_bias`` applies to queries, keys and values, but not to the output.
    """
    spec = read_rotated_half(config, read_heads(config, default_size=128, requires_kv_count=True))
    return replace(spec, qkv_bias=config.flag("attention_bias", default=True))


def read_rotated_half(config: ConfigReader, heads: Heads) -> ModelSpec:
    """Return the specification of a decoder that rotates half of each head by default."""
    return read_decoder(config, heads, rope=read_rope(config, heads.size, rotated_fraction=0.5))


dense_tensors: Final = partial(canonical_tensors, rules=(adjacent_pairs, gate_and_up))

GLM: Final = Family(model_types=("glm",), read=read_glm, tensors=dense_tensors)


def read_glm4(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-0414 model from its config.json.

    GLM-4-0414 is GLM with norms after attention and feed-forward blocks.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4ForCausalLM")
    return replace(read_dense(config), post_norms=True)


NORM_NAMES: Final = {
    "post_attention_norm": "post_self_attn_layernorm.weight",
    "post_mlp_norm": "post_mlp_layernorm.weight",
}

GLM4: Final = Family(
    model_types=("glm4",), read=read_glm4, tensors=partial(dense_tensors, names={**NAMES, **NORM_NAMES})
)


def read_glm4_moe(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-MoE model from its config.json.

    The routing is that of DeepSeek-V3. The first layers have dense feed-forward blocks.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4MoeForCausalLM")
    spec = read_rotated_half(config, read_heads(config, requires_kv_count=True))
    experts = read_sigmoid_experts(config, groups=1, chosen_groups=1, scale=1.0)
    return replace(
        with_mixture(spec, experts, layers_with_experts(config, unstated_dense=1)),
        qkv_bias=config.flag("attention_bias", default=False),
        head_norm="rms" if config.flag("use_qk_norm", default=False) else "",
    )


GLM4_MOE: Final = Family(
    model_types=("glm4_moe",),
    read=read_glm4_moe,
    tensors=expert_tensors,
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers"}),
    harmless_tensors=harmless_names_beyond,
)
