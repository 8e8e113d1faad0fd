"""Cohere (Command R): parallel blocks that share a layer norm without bias, and scaled logits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import NAMES, adjacent_pairs, canonical_tensors


def read_cohere(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Cohere model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "CohereForCausalLM")
    config.require("use_qk_norm", (False,), "layer norms of heads are not supported; supported: false")
    return read_with_layers(config, layers=equal_layers(config), base=500_000.0)


def read_with_layers(config: ConfigReader, *, layers: tuple[Layer, ...], base: float) -> ModelSpec:
    """Return the specification of a Cohere or Cohere 2 model with the given layers.

    Args:
        config: Reader of the keys in config.json.
        layers: Layers of the model.
        base: Base of the rotary frequencies if the config does not specify one.
    """
    heads = read_heads(config)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=base),
        layers=layers,
        eps_key="layer_norm_eps",
        tied=True,
        bias_key="attention_bias",
    )
    return replace(
        spec,
        norm="layer",
        norm_bias=False,
        parallel_blocks=True,
        logit_scale=config.number("logit_scale", SMALLEST_FACTOR, LARGEST_FACTOR, default=0.0625),
    )


tensors: Final = partial(
    canonical_tensors, names={**NAMES, "mlp_norm": NAMES["attention_norm"]}, rules=(adjacent_pairs,)
)

FAMILY: Final = Family(model_types=("cohere",), read=read_cohere, tensors=tensors)
