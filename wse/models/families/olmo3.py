"""OLMo 3: OLMo 2 with sliding windows in most layers, whose rotary frequencies are not scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.rope_config import read_ropes
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read_olmo3(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 3 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo3ForCausalLM")
    heads = read_heads(config)
    rope, window_rope = read_ropes(config, heads.size, base=500_000.0, window_base=500_000.0, window_key=None)
    kinds = pattern_kinds(config, layer_count(config), unstated_interval=4)
    spec = read_decoder(
        config,
        heads,
        rope=rope,
        layers=windowed_layers(config, kinds, read_window(config, unstated_window=4096)),
        bias_key="attention_bias",
    )
    return replace(spec, window_rope=window_rope, head_norm="rms_all", pre_norms=False, post_norms=True)


FAMILY: Final = Family(model_types=("olmo3",), read=read_olmo3, tensors=canonical_tensors)
