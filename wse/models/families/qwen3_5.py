"""Qwen3.5, text model only: the attention of Qwen3-Next, with dense blocks or experts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import LARGEST_TABLE, read_text_model, require_class
from wse.models.configs.linear_config import add_scaled_mixture, read_hybrid
from wse.models.family import CanonicalTensor, Family, FileSlice, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_slices
from wse.models.tensors.linear_names import HYBRID_NAMES, channel_rows, hybrid_slices
from wse.models.tensors.tensor_names import Shape, text_prefix, text_tensors

DENSE: Final = ("qwen3_5", "qwen3_5_text")
MIXTURE: Final = ("qwen3_5_moe", "qwen3_5_moe_text")
CLASSES: Final = tuple(
    f"Qwen3_5{kind}For{task}" for kind in ("", "Moe") for task in ("CausalLM", "ConditionalGeneration")
)


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3.5 model from its config.json.

    If the model is multimodal, only its text model (``text_config``) is read.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, *CLASSES)
    return read_text_model(config, _read_text, FAMILY.harmless_keys)


def _read_text(config: ConfigReader) -> ModelSpec:
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


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Qwen3.5 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect a multimodal model and
            how experts are stored.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The result is () for a tensor that the checkpoint stores as it is. For example, the queries,
        keys and values of linear attention are not: the checkpoint stores them in one matrix.

        Args:
            name: Name of the tensor in wse, without the layer prefix.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        prefix = f"{text_prefix(file_names)}layers.{layer}."
        if name in ("delta.q", "delta.k", "delta.v"):
            channels, rows = channel_rows(name[-1], spec)
            file_name = f"{prefix}linear_attn.in_proj_qkv.weight"
            return (FileSlice(file_name=file_name, file_shape=(channels, spec.hidden_size), index=(rows,)),)
        slices = hybrid_slices(name, spec, prefix, shape)
        return slices or expert_slices(name, spec, f"{prefix}mlp.experts", file_names)

    names = {
        **HYBRID_NAMES,
        **{f"delta.{name}": f"linear_attn.in_proj_{name}.weight" for name in "zba"},
    }
    return text_tensors(spec, names, file_names, slices_of)


FAMILY: Final = Family(
    model_types=(*DENSE, *MIXTURE),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset(
        {
            *("vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"),
            *("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        }
    ),
    harmless_tensors=harmless_names(r"mtp\..*", r"model\.visual\..*"),
)
