"""Phi-3 and Phi-4: Llama with fused projections, LongRoPE, and a sliding window in every layer, or in none."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, Piece, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LAYERS, Shape, wanted_tensors

SCALINGS: Final = {"default": "default", "longrope": "longrope", "su": "longrope", "yarn": "longrope"}
"""Older configs have other names for LongRoPE."""


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a Phi-3 config."""
    require_class(config, "Phi3ForCausalLM")
    heads = read_heads(config)
    for key in ("attention_bias", "mlp_bias", "lm_head_bias"):
        config.require(key, (False,), "this family has no biases; supported: false")
    for key in ("full_attn_mod", "interpolate_factor"):
        config.require(key, (1,), "supported: 1")
    return read_decoder(
        config,
        name,
        unstated_dtype,
        family="phi3",
        heads=heads,
        rope=read_rope(config, heads.size, share=1.0, kinds=SCALINGS),
        layers=equal_layers(config, layer_count(config), read_window(config)),
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a Phi-3 checkpoint, in which q, k and v are one matrix, and so are gate and up."""
    queries, keys = spec.head_count * spec.head_size, spec.kv_head_count * spec.head_size
    first = {"q": 0, "k": queries, "v": queries + keys, "gate": 0, "up": spec.ffn_size}
    fused = {
        **dict.fromkeys("qkv", ("self_attn.qkv_proj", queries + 2 * keys)),
        **dict.fromkeys(("gate", "up"), ("mlp.gate_up_proj", 2 * spec.ffn_size)),
    }

    def cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
        if name not in fused:
            return ()
        matrix, outputs = fused[name]
        taken = slice(first[name], first[name] + shape[0])
        file_name = f"{LAYERS}{layer}.{matrix}.weight"
        return (Piece(file_name=file_name, file_shape=(outputs, shape[1]), index=(taken,)),)

    return wanted_tensors(spec, cut=cut)


FAMILY: Final = Family(model_types=("phi3",), read=read, tensors=tensors)
