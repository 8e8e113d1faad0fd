"""Qwen3.5, text model: Qwen3-Next with experts or dense blocks."""

from __future__ import annotations

from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, read_text_model, require_class
from wse.models.configs.linear_config import add_scaled_mixture, read_hybrid
from wse.models.families.qwen3_next import NAMES_OF_LAYER, channels, hybrid_slices
from wse.models.family import Family, FileSlice, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_slices
from wse.models.tensors.tensor_names import (
    LayerTensor,
    rows_of_matrix,
    text_tensors,
)

DENSE: Final = ("qwen3_5", "qwen3_5_text")

MIXTURE: Final = ("qwen3_5_moe", "qwen3_5_moe_text")

CLASSES: Final = tuple(
    f"Qwen3_5{kind}For{task}" for kind in ("", "Moe") for task in ("CausalLM", "ConditionalGeneration")
)


def read_qwen3_5(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3.5 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, *CLASSES)
    return read_text_model(config, _read_qwen3_5_text, FAMILY.harmless_keys)


def _read_qwen3_5_text(config: ConfigReader) -> ModelSpec:
    """Return the specification of the text model, which may be part of a multimodal model."""
    require_class(config, *CLASSES)
    config.require("model_type", (*DENSE, *MIXTURE), f"give {DENSE[1]} or {MIXTURE[1]}")
    has_mixture = config.value("model_type") in MIXTURE
    if has_mixture:  # configs of mixtures have no width of dense blocks
        config = config.with_defaults({"intermediate_size": config.integer("moe_intermediate_size", 1, LARGEST_TABLE)})
        config.require("mlp_only_layers", ([],), "every layer has experts; supported: []")
    config.require("attn_output_gate", (True,), "the output of attention is always gated; supported: true")
    spec = read_hybrid(config)
    return add_scaled_mixture(config, spec) if has_mixture else spec


def inputs_in_order(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a Qwen3.5 checkpoint stores the queries, keys or values of linear attention."""
    if tensor.name not in ("delta.q", "delta.k", "delta.v"):
        return ()
    return rows_of_matrix(tensor, "linear_attn.in_proj_qkv", channels(tensor, "delta."))


FAMILY: Final = Family(
    model_types=(*DENSE, *MIXTURE),
    read=read_qwen3_5,
    tensors=partial(text_tensors, names=NAMES_OF_LAYER, rules=(inputs_in_order, hybrid_slices, expert_slices)),
    harmless_keys=frozenset(
        {
            *("vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"),
            *("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        }
    ),
    harmless_tensors=harmless_names(r"mtp\..*", r"model\.visual\..*"),
)
