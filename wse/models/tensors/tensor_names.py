"""Map canonical tensors to the names and layouts that the files of most model families share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wse.models.family import CanonicalTensor, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

NAMES: Final[Mapping[str, str]] = {
    "embedding": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
    "attention_norm": "input_layernorm.weight",
    **{name: f"self_attn.{name}_proj.weight" for name in "qkvo"},
    **{f"{name}_norm": f"self_attn.{name}_norm.weight" for name in "qk"},
    "post_attention_norm": "post_attention_layernorm.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    **{name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")},
    "router": "mlp.gate.weight",
    "router_correction": "mlp.gate.e_score_correction_bias",
    **{f"shared.{name}": f"mlp.shared_experts.{name}_proj.weight" for name in ("gate", "up", "down")},
    "post_mlp_norm": "post_feedforward_layernorm.weight",
}
"""Names of tensors in the files of Llama and similar models.

The names of a layer's tensors follow ``model.layers.I.``. Models without norms before their blocks
use the name of ``mlp_norm`` for the norm after attention.
"""

LAYERS: Final = "model.layers."


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTensor:
    """A tensor of a model that is to be found in a checkpoint.

    Attributes:
        name: Name of the tensor in wse, without the layer prefix, such as ``q`` or ``experts.up``.
        shape: Shape of the tensor in wse.
        layer: Index of the layer; -1 outside the layers.
        prefix: Start of the names of the layer's tensors in the file, such as ``model.layers.3.``;
            "" outside the layers.
        spec: Specification of the model.
        file_names: Names of the tensors in the checkpoint, used to detect its layout.
    """

    name: str
    shape: tuple[int, ...]
    layer: int
    prefix: str
    spec: ModelSpec
    file_names: Collection[str]

    @property
    def matrix(self) -> str:
        """Name of the matrix in wse, also if this tensor is the bias of the matrix."""
        return self.name.removesuffix("_bias")

    def name_in_file(self, module: str) -> str:
        """Return the name of the weight, or of the bias, of a module of the layer in the file."""
        return f"{self.prefix}{module}.{'weight' if self.name == self.matrix else 'bias'}"


SliceRule = Callable[[LayerTensor], tuple[FileSlice, ...]]
"""Function that returns where a checkpoint stores a tensor, or () if the rule does not apply to it."""


def canonical_tensors(
    spec: ModelSpec,
    file_names: Collection[str],
    names: Mapping[str, str] = NAMES,
    rules: Sequence[SliceRule] = (),
    layers: str = LAYERS,
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model with its location in a checkpoint.

    The location consists of the slices that the first applicable rule returns. If no rule applies,
    the tensor is stored whole under a name from ``names``. A bias has the name of its projection or
    norm with ``bias`` instead of ``weight``.

    Args:
        spec: Specification of the model.
        file_names: Names of the tensors in the checkpoint.
        names: Names in the file, keyed by the tensor's name in wse without the layer.
        rules: Rules for tensors that are not stored separately.
        layers: Text before the layer index in the file's tensor names.
    """
    for name, shape in tensor_shapes(spec).items():
        layer, name_in_layer, prefix = -1, name, ""
        if name.startswith("layers."):
            _, index, name_in_layer = name.split(".", 2)
            layer, prefix = int(index), f"{layers}{index}."
        tensor = LayerTensor(
            name=name_in_layer, shape=shape, layer=layer, prefix=prefix, spec=spec, file_names=file_names
        )
        slices = next(filter(None, (rule(tensor) for rule in rules)), None)
        if slices is None:
            slices = (FileSlice(file_name=prefix + _file_name(name_in_layer, names), file_shape=shape),)
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


def text_tensors(
    spec: ModelSpec, file_names: Collection[str], names: Mapping[str, str] = NAMES, rules: Sequence[SliceRule] = ()
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a text model with its location in a checkpoint.

    The checkpoint may be that of a multimodal model, in which tensor names have another prefix.

    Args:
        spec: Specification of the text model.
        file_names: Names of the tensors in the checkpoint, used to detect the prefix.
        names: Names in the checkpoint of a text model, keyed by the tensor's name in wse.
        rules: Rules for tensors that are not stored separately.
    """
    start = next((text for text in TEXT_PREFIXES if f"{text}embed_tokens.weight" in file_names), "model.")
    head = "language_model.lm_head.weight" if start == TEXT_PREFIXES[0] else NAMES["head"]
    tables = {"embedding": f"{start}embed_tokens.weight", "final_norm": f"{start}norm.weight", "head": head}
    return canonical_tensors(spec, file_names, {**names, **tables}, rules, f"{start}layers.")


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


def adjacent_pairs(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a checkpoint stores a query or key projection with rotary embeddings.

    Rotary embeddings rotate features in pairs. The checkpoint stores the two rows of a pair next to
    each other. In wse, the first rows of all pairs of a head precede the second rows, and rows that
    are not rotated come last. The result is one slice that reorders the rows in this way, or () for
    other tensors.
    """
    spec = tensor.spec
    if tensor.matrix not in ("q", "k") or not spec.layers[tensor.layer].rotary:
        return ()
    order = np.concatenate([split_halves(spec.rotary_size), np.arange(spec.rotary_size, spec.head_size)])
    file_name = tensor.name_in_file(f"self_attn.{tensor.matrix}_proj")
    rows = rows_of_heads(tensor.shape[0] // spec.head_size, spec.head_size, order)
    return (FileSlice(file_name=file_name, file_shape=tensor.shape, rows=rows),)


def rows_of_matrix(tensor: LayerTensor, module: str, heights: Mapping[str, int]) -> tuple[FileSlice, ...]:
    """Return where a checkpoint matrix that concatenates several tensors stores one of them.

    The matrix contains all rows of the first tensor, then all rows of the second one, and so on.

    Args:
        tensor: Tensor to find.
        module: Name of the matrix in the file, without the layer prefix and ``.weight``.
        heights: Number of rows of each tensor in the matrix, in order, keyed by the name in wse.

    Returns:
        One slice, or () if the matrix does not contain the tensor.
    """
    if tensor.name not in heights:
        return ()
    order = list(heights)
    first = sum(heights[other] for other in order[: order.index(tensor.name)])
    shape, index = (sum(heights.values()), *tensor.shape[1:]), (slice(first, first + heights[tensor.name]),)
    return (FileSlice(file_name=tensor.name_in_file(module), file_shape=shape, index=index),)


def gate_and_up(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a checkpoint that stores gate and up in one matrix stores one of them."""
    return rows_of_matrix(tensor, "mlp.gate_up_proj", dict.fromkeys(("gate", "up"), tensor.spec.ffn_size))


def qkv_of_groups(tensor: LayerTensor, block: str) -> tuple[FileSlice, ...]:
    """Return where a checkpoint matrix that combines queries, keys and values stores one of them.

    For each KV head, the matrix contains the rows of its query heads, then of its keys, then of its
    values. The result is () for tensors that are not in the matrix.

    Args:
        tensor: Tensor to find.
        block: Name of the attention block in the file, which contains ``query_key_value``.
    """
    if tensor.matrix not in ("q", "k", "v"):
        return ()
    size, groups = tensor.spec.head_size, tensor.spec.kv_head_count
    heights = {"q": tensor.spec.queries_per_kv * size, "k": size, "v": size}
    height = sum(heights.values())
    first = {"q": 0, "k": height - 2 * size, "v": height - size}[tensor.matrix]
    rows = rows_of_heads(groups, height, np.arange(first, first + heights[tensor.matrix]))
    shape = (groups * height, *tensor.shape[1:])
    return (FileSlice(file_name=tensor.name_in_file(f"{block}.query_key_value"), file_shape=shape, rows=rows),)
