"""Nemotron-4 and Minitron: layer norms with gains stored minus one, and squared ReLU without gate.

Half of each head is rotated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors

ACTIVATIONS: Final = {"relu2": "relu2"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Nemotron model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "NemotronForCausalLM")
    heads = read_heads(config)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, rotated_fraction=0.5),
        activations=ACTIVATIONS,
        bias_key="attention_bias",
        eps_key="norm_eps",
    )
    mlp_biased = config.flag("mlp_bias", default=False)
    return replace(spec, ffn_bias=mlp_biased, gated=False, norm="layer", norm_unit_offset=True)


FAMILY: Final = Family(model_types=("nemotron",), read=read, tensors=canonical_tensors)
