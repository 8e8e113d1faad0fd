"""GLM (GLM-4 of 2024): rotation of half of each head, biases for queries, keys and values.

Gate and up share one matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LAYERS, NAMES, Shape, adjacent_pairs, canonical_tensors, rows_of_matrix

UNSTATED_FRACTION: Final = 0.5
UNSTATED_HEAD_SIZE: Final = 128


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a GLM model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "GlmForCausalLM")
    return read_glm(config)


def read_glm(config: ConfigReader) -> ModelSpec:
    """Return the specification of a GLM or GLM-4-0414 model.

    The norms after the blocks of a GLM-4-0414 model are not included. ``attention_bias`` applies to
    queries, keys and values, but not to the output.

    Args:
        config: Reader of the keys in config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    heads = read_heads(config, default_size=UNSTATED_HEAD_SIZE, requires_kv_count=True)
    spec = read_decoder(config, heads, rope=read_rope(config, heads.size, rotated_fraction=UNSTATED_FRACTION))
    return replace(spec, qkv_bias=config.flag("attention_bias", default=True))


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a GLM model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    return glm_tensors(spec, NAMES)


def glm_tensors(spec: ModelSpec, names: Mapping[str, str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a GLM or GLM-4-0414 model with its location in a checkpoint.

    The checkpoint stores the gate and up projections in one matrix. Rotary embeddings rotate
    features in pairs. The checkpoint stores the two features of a pair in adjacent rows, which wse
    reorders.

    Args:
        spec: Specification of the model.
        names: Names in the file, keyed by the tensor's name in wse without the layer.
    """
    heights = {"gate": spec.ffn_size, "up": spec.ffn_size}

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The checkpoint stores queries and keys in another row order, and the gate and up projections
        in one matrix. The result is () for all other tensors, which it stores as they are.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``q``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        pairs = adjacent_pairs(name, spec, layer, shape)
        return pairs or rows_of_matrix(name, f"{LAYERS}{layer}.mlp.gate_up_proj.weight", heights, shape)

    return canonical_tensors(spec, names, slices_of=slices_of)


FAMILY: Final = Family(model_types=("glm",), read=read, tensors=tensors)
