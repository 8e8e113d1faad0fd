"""Phi-MoE (Phi-3.5-MoE): layer norms, LongRoPE, biases, and experts weighted by a sparse mixer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope import LARGEST_FACTOR, SMALLEST_FACTOR
from wse.models.configs.rope_config import RopeConfig, read_rope, rope_table
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import NUMBERED_PARTS, expert_slices
from wse.models.tensors.tensor_names import NAMES, canonical_tensors

SCALINGS: Final = {"default": "default", "longrope": "longrope", "su": "longrope"}
MAGNITUDES: Final = ("short_mscale", "long_mscale")
BLOCK: Final = "block_sparse_moe"


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Phi-MoE model from its config.json.

    The router uses a sparse mixer: the weight of an expert is a softmax over only those experts
    whose router outputs are close to the maximum. ``router_jitter_noise`` determines how close.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "PhimoeForCausalLM", "PhiMoEForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=_rope(config, heads.size),
        layers=equal_layers(config, read_window(config)),
        bias_key="attention_bias",
    )
    noise = config.number("router_jitter_noise", 0.0, 1.0, default=0.01)
    config.require("num_experts_per_tok", (2,), "the sparse mixer selects two experts; supported: 2")
    experts = replace(read_experts(config, "intermediate_size"), normalised=False, mixer_tolerance=noise)
    head_biased = config.flag("lm_head_bias", default=False)
    return replace(with_mixture(spec, experts), head_bias=head_biased, norm="layer")


def _rope(config: ConfigReader, head_size: int) -> RopeConfig:
    """Return the rotary position embeddings, which are valid up to the original context length.

    LongRoPE, with which these models extend their context, has a scale ``short_mscale`` for contexts
    up to this length. If the config has it, cosines and sines are multiplied by it.
    """
    rope = read_rope(config, head_size, base=1e6, kinds=SCALINGS, other_keys=MAGNITUDES)
    table = rope_table(config)
    if not table.has_value(MAGNITUDES[0]):
        return rope
    multiplier = table.number(MAGNITUDES[0], SMALLEST_FACTOR, LARGEST_FACTOR)
    return replace(rope, rope=replace(rope.rope, multiplier=multiplier))


FAMILY: Final = Family(
    model_types=("phimoe",),
    read=read,
    tensors=partial(
        canonical_tensors,
        names={**NAMES, "router": f"{BLOCK}.gate.weight"},
        rules=(partial(expert_slices, block=BLOCK, parts=NUMBERED_PARTS),),
    ),
    harmless_keys=frozenset({"input_jitter_noise"}),
)
