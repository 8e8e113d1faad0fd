"""Llama 4, text model only: chunked attention, layers without rotation, weighted expert inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.attention_traits import PositionScale
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_MATRIX_ROWS, read_decoder, read_heads, read_text_model, require_class
from wse.models.configs.expert_config import read_experts
from wse.models.configs.layer_kinds import FULL, MAX_LAYERS, layer_count, layer_kinds, read_rotary
from wse.models.configs.rope_config import LONGEST_CONTEXT, read_rope
from wse.models.family import CanonicalTensor, Family, harmless_names
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.expert_tensors import stacked_slices
from wse.models.tensors.tensor_names import NAMES, adjacent_pairs, canonical_tensors

CHUNKED: Final = "chunked_attention"
HARMLESS_KEYS: Final = frozenset(
    {
        *("vision_config", "boi_token_index", "eoi_token_index", "image_token_index", "for_llm_compressor"),
        *("boi_token_id", "eoi_token_id", "image_token_id", "bos_token_id", "vision_feature_layer"),
    }
)


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Llama 4 model from its config.json.

    If the model is multimodal, only its text model (``text_config``) is read.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Llama4ForConditionalGeneration", "Llama4ForCausalLM")
    return read_text_model(config, _read_text, HARMLESS_KEYS)


def _read_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    require_class(config, "Llama4ForCausalLM", "Llama4ForConditionalGeneration")
    config.require("model_type", ("llama4", "llama4_text"), "give llama4_text")
    heads = read_heads(config, default_size=128, requires_kv_count=True)
    layers = _layers(config)
    spec = read_decoder(
        config, heads, rope=read_rope(config, heads.size, base=500_000.0), layers=layers, bias_key="attention_bias"
    )
    experts = read_experts(config, "intermediate_size")
    dense_width = config.integer("intermediate_size_mlp", 1, MAX_MATRIX_ROWS)
    has_experts = [layer.experts for layer in layers]
    return replace(
        spec,
        head_norm="l2" if config.flag("use_qk_norm", default=True) else "",
        position_scale=_position_scale(config),
        ffn_size=0 if all(has_experts) else dense_width,
        experts=replace(experts, scoring="sigmoid", normalised=False, weighs_input=True, shared_size=experts.ffn_size)
        if any(has_experts)
        else None,
    )


def _layers(config: ConfigReader) -> tuple[Layer, ...]:
    """Return the layers of a Llama 4 model.

    Layers with rotary position embeddings attend only to tokens in the same chunk of the sequence.
    The other layers attend to all earlier tokens. ``layer_types`` in the config may specify other
    attention types.
    """
    count = layer_count(config)
    rotary = read_rotary(config, count)
    kinds = layer_kinds(config, (FULL, CHUNKED), [CHUNKED if is_rotary else FULL for is_rotary in rotary])
    chunk = config.integer("attention_chunk_size", 1, LONGEST_CONTEXT, default=8192)
    if CHUNKED in kinds and config.is_stated("attention_chunk_size") and not config.has_value("attention_chunk_size"):
        config.refuse("attention_chunk_size", None, f"layers of {CHUNKED} need one: give an integer")
    step = config.integer("interleave_moe_layer_step", 1, MAX_LAYERS, default=1)
    expert_layers = config.integers("moe_layers", 0, count - 1)
    expert_layers = tuple(range(step - 1, count, step)) if expert_layers is None else expert_layers
    return tuple(
        Layer(rotary=rotary[index], chunk=chunk if kinds[index] == CHUNKED else None, experts=index in expert_layers)
        for index in range(count)
    )


def _position_scale(config: ConfigReader) -> PositionScale | None:
    """Return the factor by which queries are multiplied, depending on their position.

    The result is None if the config disables the factor.
    """
    tokens = config.integer("floor_scale", 1, LONGEST_CONTEXT, default=8192)
    coefficient = config.number("attn_scale", 0.0, 1e6, default=0.1)
    key = "attn_temperature_tuning"
    config.require(key, (True, False, 4), "give true or false")  # the first configs have 4, which means true
    if config.has_value(key) and not config.value(key):
        return None
    return PositionScale(coefficient=coefficient, floor_tokens=tokens)


BLOCK: Final = "feed_forward"
BLOCK_NAMES: Final = {
    "router": f"{BLOCK}.router.weight",
    **{part: f"{BLOCK}.{part}_proj.weight" for part in ("gate", "up", "down")},
    **{f"shared.{part}": f"{BLOCK}.shared_expert.{part}_proj.weight" for part in ("gate", "up", "down")},
}
TABLES: Final = ("embedding", "final_norm", "head")


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Llama 4 model with its location in a checkpoint.

    Expert matrices are stored as [experts, in, out]. In the file, the two features that rotary
    embeddings rotate together are adjacent rows. wse reorders them: the first features of all
    pairs, then the second features.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect a multimodal model.
    """
    prefix = "language_model." if "language_model.model.embed_tokens.weight" in file_names else ""
    layers = f"{prefix}model.layers."
    names = {**NAMES, **BLOCK_NAMES, **{table: prefix + NAMES[table] for table in TABLES}}
    stacked = partial(stacked_slices, block=f"{BLOCK}.experts", transposed=True)
    return canonical_tensors(spec, file_names, names, (adjacent_pairs, stacked), layers)


FAMILY: Final = Family(
    model_types=("llama4", "llama4_text"),
    read=read,
    tensors=tensors,
    harmless_keys=HARMLESS_KEYS,
    harmless_tensors=harmless_names(r"(model\.)?(vision_model|multi_modal_projector)\..*"),
)
