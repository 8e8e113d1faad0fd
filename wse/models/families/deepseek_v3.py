"""DeepSeek-V3, R1 and Kimi K2: latent attention, experts chosen by groups (arXiv 2412.19437, section 2.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MOST_HEADS, WIDEST, Heads, layer_count, read_decoder, require_class
from wse.models.configs.expert_config import add_experts, layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, Piece, WantedTensor, harmless_names_beyond
from wse.models.spec import Latent, ModelSpec
from wse.models.tensors.tensor_names import (
    LAYERS,
    NAMES,
    SIGMOID_NAMES,
    Shape,
    expert_pieces,
    rows_of_heads,
    split_halves,
    wanted_tensors,
)

UNSTATED_DENSE: Final = 3


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a DeepSeek-V3 config."""
    require_class(config, "DeepseekV3ForCausalLM")
    heads = config.integer("num_attention_heads", 1, MOST_HEADS)
    latent = _latent(config)
    _require_derived(config, heads, latent)
    rope = read_rope(config, latent.rope_size)
    count = layer_count(config)
    chosen = layers_with_experts(config, count, UNSTATED_DENSE)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="deepseek_v3",
        heads=Heads(count=heads, kv_count=1, size=latent.kv_rank + latent.rope_size),
        rope=rope,
        layers=add_experts(equal_layers(config, count, None), chosen),
    )
    experts = read_sigmoid_experts(config, groups=8, chosen_groups=4, scale=2.5)
    biased = config.flag("attention_bias", default=False)
    return replace(
        with_mixture(spec, chosen, experts),
        attention_scale=(latent.nope_size + latent.rope_size) ** -0.5 * rope.score_factor,
        latent=latent,
        qkv_bias=biased,
        output_bias=biased,
    )


def _latent(config: ConfigReader) -> Latent:
    """Return the sizes of latent attention. Queries come from the hidden vector where ``q_lora_rank`` is null."""
    plain = config.is_stated("q_lora_rank") and not config.has("q_lora_rank")
    rope_size = config.integer("qk_rope_head_dim", 2, WIDEST)
    if rope_size % 2:
        config.refuse("qk_rope_head_dim", rope_size, "rotary positions pair features of a head: give an even size")
    return Latent(
        q_rank=0 if plain else config.integer("q_lora_rank", 1, WIDEST),
        kv_rank=config.integer("kv_lora_rank", 1, WIDEST),
        nope_size=config.integer("qk_nope_head_dim", 1, WIDEST),
        rope_size=rope_size,
        value_size=config.integer("v_head_dim", 1, WIDEST),
    )


def _require_derived(config: ConfigReader, heads: int, latent: Latent) -> None:
    """Check keys of the config whose values follow from others."""
    config.require("num_key_value_heads", (heads,), f"all {heads} heads share the latent vector; give {heads}")
    size = latent.nope_size + latent.rope_size
    config.require("qk_head_dim", (size,), f"is qk_nope_head_dim + qk_rope_head_dim = {size}")
    config.require("head_dim", (latent.rope_size,), f"is qk_rope_head_dim = {latent.rope_size}")
    config.require("rope_interleave", (True,), "rotated pairs must be neighbours; supported: true")


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a DeepSeek-V3 checkpoint, in which rotated pairs are neighbours."""
    latent = spec.latent
    if latent is None:
        return
    heads, nope, rope, value = spec.head_count, latent.nope_size, latent.rope_size, latent.value_size
    query = "q_b_proj" if latent.q_rank else "q_proj"
    turned = split_halves(rope)
    rows = {  # of the file's matrix of so many rows
        "q_nope": (query, heads * (nope + rope), rows_of_heads(heads, nope + rope, np.arange(nope))),
        "q_rope": (query, heads * (nope + rope), rows_of_heads(heads, nope + rope, nope + turned)),
        "kv_a": ("kv_a_proj_with_mqa", latent.kv_rank + rope, np.arange(latent.kv_rank)),
        "k_rope": ("kv_a_proj_with_mqa", latent.kv_rank + rope, latent.kv_rank + turned),
        "k_b": ("kv_b_proj", heads * (nope + value), rows_of_heads(heads, nope + value, np.arange(nope))),
        "v_b": ("kv_b_proj", heads * (nope + value), rows_of_heads(heads, nope + value, nope + np.arange(value))),
    }

    def cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
        projection = name.removesuffix("_bias")
        if projection not in rows:
            return expert_pieces(name, spec, f"{LAYERS}{layer}.mlp.experts", file_names)
        matrix, outputs, taken = rows[projection]
        part = "weight" if name == projection else "bias"
        file_name = f"{LAYERS}{layer}.self_attn.{matrix}.{part}"
        return (Piece(file_name=file_name, file_shape=(outputs, *shape[1:]), rows=taken),)

    yield from wanted_tensors(spec, {**NAMES, **SIGMOID_NAMES, **LATENT_NAMES}, cut=cut)


LATENT_NAMES: Final = {
    "q_a": "self_attn.q_a_proj.weight",
    "q_a_norm": "self_attn.q_a_layernorm.weight",
    "kv_a_norm": "self_attn.kv_a_layernorm.weight",
}

FAMILY: Final = Family(
    model_types=("deepseek_v3", "kimi_k2"),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers", "aux_loss_alpha", "seq_aux", "ep_size"}),
    harmless_tensors=harmless_names_beyond,
)
