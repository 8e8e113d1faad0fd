"""Map canonical tensors to the names and layouts that the files of most model families share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wse.models.family import CanonicalTensor, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

Shape = tuple[int, ...]
SliceRule = Callable[[str, int, Shape], tuple[FileSlice, ...]]
"""Function from a canonical name without ``layers.I.``, the index I and a shape to file slices.

I is -1 outside the layers. The function returns () if the file stores the tensor under its own
name.
"""

NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "embedding": "model.embed_tokens.weight",
        "final_norm": "model.norm.weight",
        "head": "lm_head.weight",
        "attention_norm": "input_layernorm.weight",
        **{name: f"self_attn.{name}_proj.weight" for name in "qkvo"},
        **{f"{name}_norm": f"self_attn.{name}_norm.weight" for name in "qk"},
        "mlp_norm": "post_attention_layernorm.weight",
        **{name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")},
    }
)
"""Names of tensors in Llama's files. Names of a layer's tensors follow ``model.layers.I.``."""

LAYERS: Final = "model.layers."

POST_NORM_NAMES: Final = {
    "post_attention_norm": "post_attention_layernorm.weight",
    "post_mlp_norm": "post_feedforward_layernorm.weight",
}
"""Names of the norms after blocks in files of Gemma 2 and other families."""


def no_slices(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
    """Return (): the rule for families whose checkpoints store every tensor as it is."""
    return ()


def canonical_tensors(
    spec: ModelSpec, names: Mapping[str, str] = NAMES, layers: str = LAYERS, slices_of: SliceRule = no_slices
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model with its location in a checkpoint.

    The location consists of the slices that ``slices_of`` returns. If it returns none, the tensor
    is stored whole under a name from ``names``. A bias has the name of its projection or norm with
    ``bias`` instead of ``weight``.

    Args:
        spec: Specification of the model.
        names: Names in the file, keyed by the tensor's name in wse without the layer.
        layers: Text before the layer index in the file's tensor names.
        slices_of: Rule for tensors that are not stored separately.
    """
    for name, shape in tensor_shapes(spec).items():
        layer, name_in_layer, file_prefix = -1, name, ""
        if name.startswith("layers."):
            _, index, name_in_layer = name.split(".", 2)
            layer, file_prefix = int(index), f"{layers}{index}."
        slices = slices_of(name_in_layer, layer, shape)
        if not slices:
            slices = (FileSlice(file_name=file_prefix + _file_name(name_in_layer, names), file_shape=shape),)
        yield CanonicalTensor(name=name, slices=slices)


def _file_name(name: str, names: Mapping[str, str]) -> str:
    """Return the name of a weight tensor or bias in the file, without the prefix of its layer.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        names: Names in the file, keyed by the name in wse.
    """
    if name in names:
        return names[name]
    return names[name.removesuffix("_bias")].removesuffix("weight") + "bias"


TEXT_PREFIXES: Final = ("language_model.model.", "model.language_model.")
"""Start of the names of a text model's tensors in files of multimodal models."""


def text_prefix(file_names: Collection[str]) -> str:
    """Return the prefix of the text model's tensor names in a checkpoint, such as ``model.``.

    In the checkpoint of a multimodal model, it is ``language_model.model.`` or
    ``model.language_model.``.

    Args:
        file_names: Names of the tensors in the checkpoint.
    """
    return next((text for text in TEXT_PREFIXES if f"{text}embed_tokens.weight" in file_names), "model.")


def text_tensors(
    spec: ModelSpec, names: Mapping[str, str], file_names: Collection[str], slices_of: SliceRule = no_slices
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a text model with its location in a checkpoint.

    The checkpoint may be that of a multimodal model, in which tensor names have another prefix.

    Args:
        spec: Specification of the text model.
        names: Names in the checkpoint of a text model, keyed by the tensor's name in wse.
        file_names: Names of the tensors in the checkpoint, used to detect the prefix.
        slices_of: Rule for tensors that are not stored separately.
    """
    start = text_prefix(file_names)
    head = "language_model.lm_head.weight" if start == TEXT_PREFIXES[0] else NAMES["head"]
    tables = {"embedding": f"{start}embed_tokens.weight", "final_norm": f"{start}norm.weight", "head": head}
    return canonical_tensors(spec, {**names, **tables}, f"{start}layers.", slices_of)


def plain_tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model whose checkpoint uses the names and layout of Llama.

    Args:
        spec: Specification of the model.
        file_names: Names of the tensors in the checkpoint. Unused here.
    """
    return canonical_tensors(spec)


def split_halves(size: int) -> NDArray[np.intp]:
    """Return the row order that moves rotated pairs from adjacent rows to two halves.

    Rotary embeddings rotate the features of a head in pairs. Pair p is in rows 2p and 2p + 1
    before, and in rows p and p + size / 2 afterwards.
    """
    return np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])


def rows_of_heads(heads: int, size: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return which rows of a matrix to select, if the same rows of every head are needed.

    Args:
        heads: Number of heads.
        size: Rows per head.
        rows: Selected rows of one head, in order.
    """
    return (np.arange(heads)[:, None] * size + rows).reshape(-1)


def adjacent_pairs(name: str, spec: ModelSpec, layer: int, shape: Shape, layers: str = LAYERS) -> tuple[FileSlice, ...]:
    """Return where a checkpoint stores a query or key projection with rotary embeddings.

    Rotary embeddings rotate features in pairs. The checkpoint stores the two rows of a pair next to
    each other. In wse, the first rows of all pairs of a head precede the second rows, and rows that
    are not rotated come last. The result is one slice that reorders the rows in this way, or () for
    other tensors.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        spec: Specification of the model.
        layer: Index of the layer; -1 outside the layers.
        shape: Shape of the tensor in wse.
        layers: Text before the layer index in the file's tensor names.
    """
    projection = name.removesuffix("_bias")
    if projection not in ("q", "k") or not spec.layers[layer].rotary:
        return ()
    order = np.concatenate([split_halves(spec.rotary_size), np.arange(spec.rotary_size, spec.head_size)])
    part = "weight" if name == projection else "bias"
    file_name = f"{layers}{layer}.self_attn.{projection}_proj.{part}"
    rows = rows_of_heads(shape[0] // spec.head_size, spec.head_size, order)
    return (FileSlice(file_name=file_name, file_shape=shape, rows=rows),)


def paired_tensors(
    spec: ModelSpec, file_names: Collection[str], names: Mapping[str, str] = NAMES
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model whose checkpoint stores rotated row pairs next to each other.

    The pairs are the rows of queries and keys that rotary embeddings rotate together. wse stores
    them in another order.

    Args:
        spec: Specification of the model.
        file_names: Names of the tensors in the checkpoint. Unused here.
        names: Names in the file, keyed by the tensor's name in wse without the layer.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores a query or key projection with rotary embeddings.

        The result is one slice that reorders the rows as in wse, or () for other tensors, which the
        checkpoint stores as they are.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``q``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        return adjacent_pairs(name, spec, layer, shape)

    return canonical_tensors(spec, names, slices_of=slices_of)


def rows_of_matrix(name: str, file_name: str, heights: Mapping[str, int], shape: Shape) -> tuple[FileSlice, ...]:
    """Return where a checkpoint matrix that concatenates several tensors stores one of them.

    The matrix contains all rows of the first tensor, then all rows of the second one, and so on.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        file_name: Name of the matrix in the checkpoint.
        heights: Number of rows of each tensor in the matrix, in order, keyed by the name in wse.
        shape: Shape of the tensor in wse.

    Returns:
        One slice, or () if the matrix does not contain the tensor.
    """
    if name not in heights:
        return ()
    order = list(heights)
    first = sum(heights[other] for other in order[: order.index(name)])
    index = (slice(first, first + heights[name]),)
    return (FileSlice(file_name=file_name, file_shape=(sum(heights.values()), *shape[1:]), index=index),)


def qkv_of_groups(name: str, spec: ModelSpec, file_name: str, shape: Shape) -> tuple[FileSlice, ...]:
    """Return where a checkpoint matrix that combines queries, keys and values stores one of them.

    For each KV head, the matrix contains the rows of its query heads, then of its keys, then of its
    values. The result is () for tensors that are not in the matrix.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        spec: Specification of the model.
        file_name: Name of the matrix in the file, without ``.weight`` or ``.bias``.
        shape: Shape of the tensor in wse.
    """
    projection = name.removesuffix("_bias")
    if projection not in ("q", "k", "v"):
        return ()
    size, groups = spec.head_size, spec.kv_head_count
    heights = {"q": spec.queries_per_kv * size, "k": size, "v": size}
    height = sum(heights.values())
    first = {"q": 0, "k": height - 2 * size, "v": height - size}[projection]
    rows = rows_of_heads(groups, height, np.arange(first, first + heights[projection]))
    part = "weight" if name == projection else "bias"
    return (FileSlice(file_name=f"{file_name}.{part}", file_shape=(groups * height, *shape[1:]), rows=rows),)
