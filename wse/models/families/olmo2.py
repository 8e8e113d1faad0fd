"""OLMo 2: norms only after blocks, and a norm of all query heads and of all key heads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, POST_NORM_NAMES, canonical_tensors


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Read the specification of an OLMo 2 model from its config.json.

    Args:
        config: Reader of the keys in config.json.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo2ForCausalLM")
    heads = read_heads(config)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="olmo2",
        heads=heads,
        rope=read_rope(config, heads.size),
        layers=equal_layers(config, layer_count(config), None),
    )
    biased = config.flag("attention_bias", default=False)
    return replace(spec, qkv_bias=biased, output_bias=biased, head_norm="rms_all", pre_norms=False, post_norms=True)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OLMo 2 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return canonical_tensors(spec, {**NAMES, **POST_NORM_NAMES})


FAMILY: Final = Family(model_types=("olmo2",), read=read, tensors=tensors)
