"""ERNIE 4.5, dense: Llama whose files store the features of rotary pairs in adjacent rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import paired_tensors

UNSTATED_HEAD_SIZE: Final = 128
UNSTATED_BASE: Final = 500_000.0


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of an ERNIE 4.5 model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Ernie4_5ForCausalLM")
    heads = read_heads(config, default_size=UNSTATED_HEAD_SIZE)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="ernie4_5",
        heads=heads,
        rope=read_rope(config, heads.size, base=UNSTATED_BASE),
        layers=equal_layers(config, layer_count(config), None),
        tied=True,
    )
    biased = config.flag("use_bias", default=False)
    return replace(spec, qkv_bias=biased, output_bias=biased, ffn_bias=biased)


FAMILY: Final = Family(model_types=("ernie4_5",), read=read, tensors=paired_tensors)
