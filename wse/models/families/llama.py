"""The Llama family: the model on whose structure most other families are based."""

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


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of a Llama model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "LlamaForCausalLM", "LLaMAForCausalLM")
    heads = read_heads(config)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="llama",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=equal_layers(config, layer_count(config), None),
    )
    config.require("rope_interleaved", (False,), "rotary pairs must be split halves; supported: false")
    config.require("sliding_window", (), "a sliding window is not supported in this family; supported: null")
    config.require("use_sliding_window", (False,), "a sliding window is not supported; supported: false")
    biased = config.flag("attention_bias", default=False)
    mlp_biased = config.flag("mlp_bias", default=False)
    return replace(spec, qkv_bias=biased, output_bias=biased, ffn_bias=mlp_biased)


FAMILY: Final = Family(
    model_types=("llama",), read=read, tensors=plain_tensors, harmless_keys=frozenset({"is_llama_config"})
)
