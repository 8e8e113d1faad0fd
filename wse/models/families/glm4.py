"""GLM-4-0414: GLM with norms after attention and feed-forward blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.families.glm import dense_tensors, read_dense
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES


def read_glm4(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM-4-0414 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Glm4ForCausalLM")
    return replace(read_dense(config), post_norms=True)


NORM_NAMES: Final = {
    "post_attention_norm": "post_self_attn_layernorm.weight",
    "post_mlp_norm": "post_mlp_layernorm.weight",
}

FAMILY: Final = Family(
    model_types=("glm4",), read=read_glm4, tensors=partial(dense_tensors, names={**NAMES, **NORM_NAMES})
)
