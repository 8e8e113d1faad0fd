"""GLM-4-MoE (GLM-4.5 to 4.7): DeepSeek-V3 routing, and rotation of half of each head.

The first layers have dense feed-forward blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family, harmless_names_beyond
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import SIGMOID_NAMES, expert_tensors
from wse.models.tensors.tensor_names import NAMES

UNSTATED_FRACTION: Final = 0.5
UNSTATED_DENSE: Final = 1


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-MoE model from its config.json.

    ``attention_bias`` in the config applies to queries, keys and values, but not to the output.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4MoeForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, rotated_fraction=UNSTATED_FRACTION))
    experts = read_sigmoid_experts(config, groups=1, chosen_groups=1, scale=1.0)
    return replace(
        with_mixture(spec, experts, layers_with_experts(config, UNSTATED_DENSE)),
        qkv_bias=config.flag("attention_bias", default=False),
        head_norm="rms" if config.flag("use_qk_norm", default=False) else "",
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a GLM-4-MoE model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """
    return expert_tensors(spec, {**NAMES, **SIGMOID_NAMES}, file_names)


FAMILY: Final = Family(
    model_types=("glm4_moe",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers"}),
    harmless_tensors=harmless_names_beyond,
)
