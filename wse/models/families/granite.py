"""Granite: Llama with factors for embeddings, attention scores, block outputs and logits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import NAMES, canonical_tensors


def read_dense(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Granite model without experts from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GraniteForCausalLM")
    return replace(read_factors(config), ffn_bias=config.flag("mlp_bias", default=False))


def read_factors(config: ConfigReader) -> ModelSpec:
    """Return the specification of a Granite model. The sizes of experts are not read."""
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    return replace(
        spec,
        attention_scale=config.number("attention_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        embedding_scale=config.number("embedding_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        residual_scale=config.number("residual_multiplier", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
        logit_scale=1.0 / config.number("logits_scaling", SMALLEST_FACTOR, LARGEST_FACTOR, default=1.0),
    )


GRANITE: Final = Family(model_types=("granite",), read=read_dense, tensors=canonical_tensors)


def read_mixture(config: ConfigReader) -> ModelSpec:
    """Read the specification of a mixture-of-experts Granite model from its config.json.

    The softmax of the scores of the selected experts is equivalent to a softmax over all experts
    that is renormalised over the selected experts, which is the default of `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GraniteMoeForCausalLM")
    return with_mixture(read_factors(config), read_experts(config, "intermediate_size"))


BLOCK: Final = "block_sparse_moe"


stacked_experts: Final = partial(
    stacked_slices, block=BLOCK, transposed=False, matrices=("input_linear.weight", "output_linear.weight")
)

GRANITE_MOE: Final = Family(
    model_types=("granitemoe",),
    read=read_mixture,
    tensors=partial(
        canonical_tensors, names={**NAMES, "router": f"{BLOCK}.router.layer.weight"}, rules=(stacked_experts,)
    ),
)
