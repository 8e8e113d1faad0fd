"""Phi-3 and Phi-4: Llama with fused projections, LongRoPE, and optional sliding windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LAYERS, Shape, canonical_tensors

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


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Phi-3 model with its location in a checkpoint.

    The file stores q, k and v in one matrix, and gate and up in another.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    queries, keys = spec.head_count * spec.head_size, spec.kv_head_count * spec.head_size
    first_rows = {"q": 0, "k": queries, "v": queries + keys, "gate": 0, "up": spec.ffn_size}
    fused_matrices = {
        **dict.fromkeys("qkv", ("self_attn.qkv_proj", queries + 2 * keys)),
        **dict.fromkeys(("gate", "up"), ("mlp.gate_up_proj", 2 * spec.ffn_size)),
    }

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The checkpoint stores queries, keys and values in one matrix, and the gate and up
        projections in another. The result is () for all other tensors, which it stores as they are.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``q`` or
                ``experts.up``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        if name not in fused_matrices:
            return ()
        matrix, outputs = fused_matrices[name]
        rows = slice(first_rows[name], first_rows[name] + shape[0])
        file_name = f"{LAYERS}{layer}.{matrix}.weight"
        return (FileSlice(file_name=file_name, file_shape=(outputs, shape[1]), index=(rows,)),)

    return canonical_tensors(spec, slices_of=slices_of)


FAMILY: Final = Family(model_types=("phi3",), read=read, tensors=tensors)
