"""Seed-OSS: Llama whose query, key and value projections have biases."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Seed-OSS model from its config.json.

    ``attention_bias`` applies to queries, keys and values, and ``attention_out_bias`` to the output
    of attention.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "SeedOssForCausalLM")
    spec = read_decoder(config, read_heads(config, default_size=128, requires_kv_count=True))
    return replace(
        spec,
        qkv_bias=config.flag("attention_bias", default=True),
        output_bias=config.flag("attention_out_bias", default=False),
        ffn_bias=config.flag("mlp_bias", default=False),
    )


FAMILY: Final = Family(
    model_types=("seed_oss",), read=read, tensors=canonical_tensors, harmless_keys=frozenset({"residual_dropout"})
)
