"""GLM-4-MoE (GLM-4.5 to 4.7): RoPE on half of each head, and DeepSeek-V3 routing.

The first layers have dense feed-forward blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_heads, require_class
from wse.models.configs.expert_config import layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.families.glm import read_rotated_half
from wse.models.family import Family, harmless_names_beyond
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors


def read_glm4_moe(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-MoE model from its config.json.

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


FAMILY: Final = Family(
    model_types=("glm4_moe",),
    read=read_glm4_moe,
    tensors=expert_tensors,
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers"}),
    harmless_tensors=harmless_names_beyond,
)
