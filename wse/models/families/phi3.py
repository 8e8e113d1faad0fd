"""Phi-3 and Phi-4: Llama with fused projections, LongRoPE, and optional sliding windows."""

from __future__ import annotations

from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LayerTensor, canonical_tensors, gate_and_up, rows_of_matrix

SCALINGS: Final = {"default": "default", "longrope": "longrope", "su": "longrope", "yarn": "longrope"}
"""Names of supported RoPE scalings. Older configs use ``su`` and ``yarn`` for LongRoPE."""


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Phi-3 or Phi-4 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Phi3ForCausalLM")
    heads = read_heads(config)
    for key in ("attention_bias", "mlp_bias", "lm_head_bias"):
        config.require(key, (False,), "this family has no biases; supported: false")
    for key in ("full_attn_mod", "interpolate_factor"):
        config.require(key, (1,), "supported: 1")
    return read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, rotated_fraction=1.0, kinds=SCALINGS),
        layers=equal_layers(config, read_window(config)),
    )


def _qkv(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return which rows of the combined q, k and v matrix contain a tensor, or ()."""
    queries, keys = tensor.spec.query_size, tensor.spec.key_size
    return rows_of_matrix(tensor, "self_attn.qkv_proj", {"q": queries, "k": keys, "v": keys})


FAMILY: Final = Family(
    model_types=("phi3",),
    read=read,
    tensors=partial(canonical_tensors, rules=(_qkv, gate_and_up)),
)
