"""Gemma: gated GELU, scaled embeddings, and gains that are stored minus one.

Two properties do not appear in a config: checkpoints store each norm gain minus 1, and embeddings
are multiplied by the square root of the hidden size. Gemma 2 and Gemma 3 have them, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors

ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh"}


def read_gemma(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma model from its config.json.

    The activation name ``gelu`` means the tanh approximation, with which Gemma was trained (source:
    transformers pull request 29402).

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GemmaForCausalLM")
    spec = read_decoder(
        config,
        read_heads(config, default_size=256, requires_kv_count=True),
        activations={**ACTIVATIONS, "gelu": "gelu_tanh"},
        tied=True,
        bias_key="attention_bias",
    )
    require_gemma(config)
    return replace(spec, norm_unit_offset=True, embedding_scale=spec.hidden_size**0.5)


def require_gemma(config: ConfigReader) -> None:
    """Check the config keys for which all Gemma models support only one value."""
    config.require("hidden_activation", tuple(ACTIVATIONS), "supported: gelu_pytorch_tanh")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")


FAMILY: Final = Family(model_types=("gemma",), read=read_gemma, tensors=canonical_tensors)
