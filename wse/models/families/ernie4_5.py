"""ERNIE 4.5: Llama whose files store the features of rotary pairs in adjacent rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import adjacent_pairs, canonical_tensors

UNSTATED_BASE: Final = 500_000.0


def read_dense(config: ConfigReader) -> ModelSpec:
    """Read the specification of an ERNIE 4.5 model without experts from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Ernie4_5ForCausalLM")
    heads = read_heads(config, default_size=128)
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, base=UNSTATED_BASE), tied=True)
    biased = config.flag("use_bias", default=False)
    return replace(spec, qkv_bias=biased, output_bias=biased, ffn_bias=biased)


FAMILY: Final = Family(
    model_types=("ernie4_5",), read=read_dense, tensors=partial(canonical_tensors, rules=(adjacent_pairs,))
)
