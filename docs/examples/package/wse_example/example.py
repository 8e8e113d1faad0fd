"""A model family: Llama under a custom ``model_type``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Return the spec of a model. Its queries, keys and values have biases if ``biased`` is true in the config."""
    spec = read_decoder(config, read_heads(config))
    return replace(spec, qkv_bias=config.flag("biased", default=False))


FAMILY: Final = Family(model_types=("example",), read=read, tensors=canonical_tensors)
