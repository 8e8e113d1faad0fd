"""OLMo 3: OLMo 2 with sliding windows in most layers, whose rotary frequencies are not scaled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope_config import read_ropes
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, POST_NORM_NAMES, canonical_tensors

UNSTATED_BASE: Final = 500_000.0
UNSTATED_WINDOW: Final = 4096
FULL_INTERVAL: Final = 4
"""Every fourth layer has full attention if the config has no ``layer_types``."""


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 3 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo3ForCausalLM")
    heads = read_heads(config)
    rope, window_rope = read_ropes(config, heads.size, base=UNSTATED_BASE, window_base=UNSTATED_BASE, window_key=None)
    kinds = pattern_kinds(config, layer_count(config), FULL_INTERVAL)
    spec = read_decoder(
        config,
        heads,
        rope=rope,
        layers=windowed_layers(config, kinds, read_window(config, UNSTATED_WINDOW)),
        bias_key="attention_bias",
    )
    return replace(spec, window_rope=window_rope, head_norm="rms_all", pre_norms=False, post_norms=True)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OLMo 3 model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return canonical_tensors(spec, {**NAMES, **POST_NORM_NAMES})


FAMILY: Final = Family(model_types=("olmo3",), read=read, tensors=tensors)
