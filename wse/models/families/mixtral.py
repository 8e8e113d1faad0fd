"""Mixtral: Mistral with a mixture of experts in every layer."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import numbered_expert_tensors


def read_mixtral(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Mixtral model from its config.json.

    Mixtral applies a softmax to the scores of the selected experts. This is equivalent to a softmax
    over all experts that is renormalised over the selected experts, which is the default of
    `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MixtralForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=1e6),
        layers=equal_layers(config, read_window(config)),
    )
    return with_mixture(spec, read_experts(config, "intermediate_size"))


FAMILY: Final = Family(model_types=("mixtral",), read=read_mixtral, tensors=numbered_expert_tensors)
