"""GLM-4-0414: GLM with norms after attention and feed-forward blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.families.glm import glm_tensors, read_glm
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES

NORM_NAMES: Final = {
    "post_attention_norm": "post_self_attn_layernorm.weight",
    "post_mlp_norm": "post_mlp_layernorm.weight",
}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-0414 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4ForCausalLM")
    return replace(read_glm(config), post_norms=True)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a GLM-4-0414 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return glm_tensors(spec, {**NAMES, **NORM_NAMES})


FAMILY: Final = Family(model_types=("glm4",), read=read, tensors=tensors)
