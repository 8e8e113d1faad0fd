"""GLM (GLM-4 of 2024): RoPE on half of each head, and biases for queries, keys and values.

Gate and up share one matrix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import Heads, read_decoder, read_heads, require_class
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import adjacent_pairs, canonical_tensors, gate_and_up


def read_glm(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GlmForCausalLM")
    return read_dense(config)


def read_dense(config: ConfigReader) -> ModelSpec:
    """Return the specification of a GLM or GLM-4-0414 model, without the norms after its blocks.

    ``attention_bias`` applies to queries, keys and values, but not to the output.
    """
    spec = read_rotated_half(config, read_heads(config, default_size=128, requires_kv_count=True))
    return replace(spec, qkv_bias=config.flag("attention_bias", default=True))


def read_rotated_half(config: ConfigReader, heads: Heads) -> ModelSpec:
    """Return the specification of a decoder that rotates half of each head by default."""
    return read_decoder(config, heads, rope=read_rope(config, heads.size, rotated_fraction=0.5))


dense_tensors: Final = partial(canonical_tensors, rules=(adjacent_pairs, gate_and_up))

FAMILY: Final = Family(model_types=("glm",), read=read_glm, tensors=dense_tensors)
