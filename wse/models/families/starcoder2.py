"""StarCoder2: layer norms, feed-forward blocks without gates, biases, and sliding windows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, canonical_tensors

ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a StarCoder2 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Starcoder2ForCausalLM")
    spec = read_decoder(
        config,
        read_heads(config, requires_kv_count=True),
        layers=equal_layers(config, read_window(config)),
        activations=ACTIVATIONS,
        eps_key="norm_epsilon",
        tied=True,
    )
    config.require("mlp_type", ("default",), "supported: default")
    config.require("norm_type", ("layer_norm",), "supported: layer_norm")
    biased = config.flag("use_bias", default=True)
    return replace(spec, norm="layer", gated=False, qkv_bias=biased, output_bias=biased, ffn_bias=biased)


FAMILY: Final = Family(
    model_types=("starcoder2",),
    read=read,
    tensors=partial(canonical_tensors, names={**NAMES, "up": "mlp.c_fc.weight", "down": "mlp.c_proj.weight"}),
    harmless_keys=frozenset({"residual_dropout", "embedding_dropout"}),
)
