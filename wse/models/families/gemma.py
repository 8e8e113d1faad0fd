"""Gemma: gated GELU, scaled embeddings, and gains that are stored minus one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import plain_tensors

UNSTATED_HEAD_SIZE: Final = 256
ACTIVATIONS: Final = {"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu_tanh"}
"""Activation names in configs. ``gelu`` means the tanh approximation, with which Gemma was trained.

Source: transformers pull request 29402.
"""


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Gemma model from its config.json.

    Two properties are common to the family and do not appear in the config: checkpoints store each
    norm gain minus 1, and embeddings are multiplied by the square root of the hidden size.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GemmaForCausalLM")
    spec = read_decoder(
        config,
        read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True),
        activations=ACTIVATIONS,
        tied=True,
        bias_key="attention_bias",
    )
    config.require("hidden_activation", ("gelu_pytorch_tanh",), "supported: gelu_pytorch_tanh")
    config.require("use_bidirectional_attention", (False,), "only decoders are supported; supported: false")
    return replace(spec, norm_unit_offset=True, embedding_scale=spec.hidden_size**0.5)


FAMILY: Final = Family(model_types=("gemma",), read=read, tensors=plain_tensors)
