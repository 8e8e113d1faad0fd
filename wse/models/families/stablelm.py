"""StableLM: layer norms, rotation of a part of each head, and optional biases."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import plain_tensors

UNSTATED_FRACTION: Final = 0.25


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a StableLM model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "StableLmForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="stablelm",
        heads=heads,
        rope=read_rope(config, heads.size, rotated_fraction=UNSTATED_FRACTION),
        layers=equal_layers(config, layer_count(config), None),
        eps_key="layer_norm_eps",
    )
    config.require("qk_layernorm", (False,), "layer norms of heads are not supported; supported: false")
    config.require("use_parallel_residual", (False,), "parallel blocks are not supported; supported: false")
    return replace(spec, norm="layer", qkv_bias=config.flag("use_qkv_bias", default=False))


FAMILY: Final = Family(model_types=("stablelm",), read=read, tensors=plain_tensors)
