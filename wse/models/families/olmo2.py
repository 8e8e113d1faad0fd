"""OLMo 2: norms only after blocks, and a norm of all query heads and of all key heads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, POST_NORM_NAMES, canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 2 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo2ForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    return replace(spec, head_norm="rms_all", pre_norms=False, post_norms=True)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OLMo 2 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return canonical_tensors(spec, {**NAMES, **POST_NORM_NAMES})


FAMILY: Final = Family(model_types=("olmo2",), read=read, tensors=tensors)
