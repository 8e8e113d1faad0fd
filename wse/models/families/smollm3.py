"""SmolLM3: Llama in which some layers do not rotate queries and keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import FULL, SLIDING, layer_count, read_rotary, read_window, windowed_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a SmolLM3 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "SmolLM3ForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=2e6),
        layers=_layers(config),
        tied=True,
        bias_key="attention_bias",
    )
    mlp_biased = config.flag("mlp_bias", default=False)
    return replace(spec, ffn_bias=mlp_biased)


def _layers(config: ConfigReader) -> tuple[Layer, ...]:
    """Return the layers of a SmolLM3 model.

    If ``use_sliding_window`` is set, layers without rotary position embeddings have a sliding
    window, unless ``layer_types`` specifies other layers.
    """
    rotary = read_rotary(config, layer_count(config))
    window = read_window(config)
    has_window = config.flag("use_sliding_window", default=False) and window is not None
    kinds = [SLIDING if has_window and not is_rotary else FULL for is_rotary in rotary]
    layers = windowed_layers(config, kinds, window)
    return tuple(replace(layer, rotary=is_rotary) for layer, is_rotary in zip(layers, rotary, strict=True))


FAMILY: Final = Family(
    model_types=("smollm3",), read=read, tensors=canonical_tensors, harmless_keys=frozenset({"max_window_layers"})
)
