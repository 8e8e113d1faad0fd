"""gpt-oss: attention sinks, windows in every other layer, YaRN, biases, and experts in all layers.

The experts use a clamped SwiGLU activation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import alternating_kinds, layer_count, read_window, windowed_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import NAMES, canonical_tensors

LARGEST_LIMIT: Final = 65504.0  # largest float16 number
UNSTATED_SCALING: Final[Mapping[str, Any]] = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a gpt-oss model from its config.json.

    gpt-oss applies a softmax to the scores of the selected experts. This is equivalent to a softmax
    over all experts that is renormalised over the selected experts, which is the default of
    `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GptOssForCausalLM")
    heads = read_heads(config, default_size=64, requires_kv_count=True)
    window = read_window(config, unstated_window=128)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=150_000.0, unstated_table=UNSTATED_SCALING),
        layers=windowed_layers(config, alternating_kinds(layer_count(config)), window),
    )
    config.require("swiglu_alpha", (1.702,), "supported: 1.702")
    experts = replace(read_experts(config, "intermediate_size"), router_bias=True)
    config.require("experts_per_token", (experts.active,), f"contradicts num_experts_per_tok = {experts.active}")
    config.value("initial_context_length")  # repeats original_max_position_embeddings
    biased = config.flag("attention_bias", default=True)
    return replace(
        with_mixture(spec, experts),
        qkv_bias=biased,
        output_bias=biased,
        sinks=True,
        activation="clamped_silu",
        activation_limit=config.number("swiglu_limit", 0.0, LARGEST_LIMIT, default=7.0),
        ffn_bias=True,
    )


# Expert matrices are stored as [experts, in, out]. One matrix stores gate and up with alternating outputs.
stacked_experts: Final = partial(stacked_slices, block="mlp.experts", transposed=True, interleaved=True)
FAMILY: Final = Family(
    model_types=("gpt_oss",),
    read=read,
    tensors=partial(
        canonical_tensors,
        names={**NAMES, "sinks": "self_attn.sinks", "router": "mlp.router.weight"},
        rules=(stacked_experts,),
    ),
)
