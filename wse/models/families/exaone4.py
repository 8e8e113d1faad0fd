"""EXAONE 4: norms of heads, norms only after blocks, and rotation only in layers with windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import FULL, layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.family import Family
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of an EXAONE 4 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Exaone4ForCausalLM")
    spec = read_decoder(config, read_heads(config, requires_kv_count=True), layers=_layers(config))
    return replace(spec, head_norm="rms", pre_norms=False, post_norms=True)


def _layers(config: ConfigReader) -> tuple[Layer, ...]:
    """Return the layers of an EXAONE 4 model.

    Without ``layer_types``, every n-th layer has full attention, where n is
    ``sliding_window_pattern``. If the config specifies a sliding window, only layers with the
    window use rotary position embeddings. Otherwise all layers use them.
    """
    count, window = layer_count(config), read_window(config, unstated_window=4096)
    kinds = [FULL] * count
    if config.has_value("layer_types"):
        config.value("sliding_window_pattern")  # the same as a number or as text, such as LLLG
    elif window is not None:
        kinds = pattern_kinds(config, count, unstated_interval=4)
    layers = windowed_layers(config, kinds, window)
    return tuple(replace(layer, rotary=window is None or layer.window is not None) for layer in layers)


FAMILY: Final = Family(
    model_types=("exaone4",), read=read, tensors=canonical_tensors, harmless_keys=frozenset({"sliding_window_pattern"})
)
