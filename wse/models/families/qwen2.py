"""Qwen2 and Qwen2.5: Llama with biases for queries, keys and values.

If a config requests sliding windows, layers starting at a given index have them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import layer_count, qwen_layers
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read_dense(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen2 or Qwen2.5 model from its config.json.

    The query, key and value projections always have biases (``qkv_bias``), although no key of a
    Qwen2 config says so.

    Raises:
        BadModel: A setting is missing, invalid or not supported, such as ``use_mrope``.
    """
    require_class(config, "Qwen2ForCausalLM")
    spec = read_decoder(
        config, read_heads(config, requires_kv_count=True), layers=qwen_layers(config, layer_count(config))
    )
    config.require("use_mrope", (False,), "positions in space are not supported; supported: false")
    return replace(spec, qkv_bias=True)


FAMILY: Final = Family(model_types=("qwen2",), read=read_dense, tensors=canonical_tensors)
