"""Granite: Llama with factors for embeddings, attention scores, block outputs and logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.configs.rope_scalings import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import plain_tensors


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a Granite model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GraniteForCausalLM")
    layers = equal_layers(config, layer_count(config), None)
    spec = read_granite(config, name, unstated_dtype, family="granite", layers=layers)
    return replace(spec, ffn_bias=config.flag("mlp_bias", default=False))


def read_granite(
    config: ConfigReader, name: str, unstated_dtype: str, *, family: str, layers: tuple[Layer, ...]
) -> ModelSpec:
    """Return the specification of a Granite model with the given layers.

    It is used for models with and without experts. The sizes of experts are not read.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.
        family: Name of the family.
        layers: Layers of the model.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    heads = read_heads(config)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family=family,
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=layers,
    )
    biased = config.flag("attention_bias", default=False)
    return replace(
        spec,
        attention_scale=config.number("attention_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        embedding_scale=config.number("embedding_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        residual_scale=config.number("residual_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        logit_scale=1.0 / config.number("logits_scaling", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        qkv_bias=biased,
        output_bias=biased,
    )


FAMILY: Final = Family(model_types=("granite",), read=read, tensors=plain_tensors)
