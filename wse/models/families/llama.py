"""The Llama family: the model on whose structure most other families are based."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Llama model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "LlamaForCausalLM", "LLaMAForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    config.require("rope_interleaved", (False,), "rotary pairs must be split halves; supported: false")
    config.require("sliding_window", (), "a sliding window is not supported in this family; supported: null")
    config.require("use_sliding_window", (False,), "a sliding window is not supported; supported: false")
    mlp_biased = config.flag("mlp_bias", default=False)
    return replace(spec, ffn_bias=mlp_biased)


FAMILY: Final = Family(
    model_types=("llama",), read=read, tensors=canonical_tensors, harmless_keys=frozenset({"is_llama_config"})
)
