"""Rules that convert tensors of a GGUF file to the names and layouts of Hugging Face checkpoints.

The rules undo the conventions of llama.cpp (``convert_hf_to_gguf.py`` of
github.com/ggml-org/llama.cpp). They do not decode anything: the tensors that they return are
decoded when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from wse.models.gguf.blocks import BLOCK_KINDS
from wse.models.gguf.file import GgufFile, Header
from wse.models.gguf.tensor_places import PLAIN, GgufTensor
from wse.models.tensors.tensor_entry import Array, Rows, RowSelection, TensorEntry, mapped_array, plain_entry


def stored_entry(gguf: GgufFile, tensor: GgufTensor) -> TensorEntry:
    """Return a tensor of a GGUF file as it is stored, with its original name and layout."""
    if tensor.kind in PLAIN:
        array = mapped_array(gguf.file, tensor.begin, tensor.shape, PLAIN[tensor.kind])
        return plain_entry(tensor.name, tensor.kind, array, gguf.file)
    kind = BLOCK_KINDS[tensor.kind]
    shape = (*tensor.shape[:-1], tensor.shape[-1] // kind.weights, kind.bytes)
    blocks = mapped_array(gguf.file, tensor.begin, shape, np.dtype(np.uint8))
    if len(tensor.shape) == 1:
        rows: Rows = lambda rows: kind.decode_blocks(blocks)[rows]  # noqa: E731
    else:
        rows = lambda rows: kind.decode_blocks(blocks[rows])  # noqa: E731
    return TensorEntry(
        name=tensor.name,
        kind=tensor.kind,
        shape=tensor.shape,
        stored_bytes=tensor.size_bytes,
        file=gguf.file,
        rows=rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTensor:
    """A tensor of a GGUF file, as passed to a renaming rule.

    Attributes:
        entry: The tensor under its GGUF name.
        prefix: Start of the new name, up to and including the layer index.
        suffix: End of the new name: weight or bias.
        neighbour: Function that finds another tensor with the same layer and suffix by its GGUF
            name. It returns None if there is no such tensor.
        header: Metadata of the file.
    """

    entry: TensorEntry
    prefix: str
    suffix: str
    neighbour: Callable[[str], TensorEntry | None]
    header: Header

    def new_name(self, name: str) -> str:
        """Return the full new name of the tensor, given its new name within the layer."""
        return f"{self.prefix}{name}.{self.suffix}"


Rule = Callable[[StoredTensor], Iterable[TensorEntry]]
"""Function that converts one tensor of a GGUF file to any number of renamed tensors."""


def rename(name: str) -> Rule:
    """Return a rule that changes the name of a tensor and keeps its suffix, weight or bias.

    Args:
        name: New name within the layer, without suffix.
    """
    return lambda tensor: [replace(tensor.entry, name=tensor.new_name(name))]


def rename_whole(name: str) -> Rule:
    """Return a rule that replaces the name of a tensor, including its suffix.

    Args:
        name: New name within the layer.
    """
    return lambda tensor: [replace(tensor.entry, name=tensor.prefix + name)]


def split_halves(layer_name: str, heads_of: Callable[[Header], int]) -> Rule:
    """Return a rule that puts the rows of a projection in the order of Hugging Face checkpoints.

    Rotary embeddings rotate features in pairs. GGUF files store the two rows of a pair next to each
    other. In the result, the first rows of all pairs of a head precede the second rows.

    Args:
        layer_name: New name within the layer, without suffix.
        heads_of: Function that returns the number of heads.
    """

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        """Return the reordered query or key projection of a GGUF file."""
        entry, name, heads = tensor.entry, tensor.new_name(layer_name), heads_of(tensor.header)
        size, odd = divmod(entry.shape[0], heads)
        if odd or size % 2:
            return [replace(entry, name=name)]  # its shape is rejected later

        def read(rows: RowSelection) -> Array:
            """Return rows of the reordered tensor."""
            order = np.arange(entry.shape[0]).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)
            return entry.rows(order[rows])

        return [replace(entry, name=name, rows=read)]

    return rule


def gain(name: str) -> Rule:
    """Return a rule that subtracts 1 from the gain of a norm.

    GGUF stores the gain itself; Hugging Face checkpoints of the family store the gain minus 1.

    Args:
        name: New name within the layer, without suffix.
    """

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        """Return a gain of the GGUF file minus one, in float32, under its new name."""
        entry = tensor.entry
        rows: Rows = lambda rows: entry.rows(rows).astype(np.float32) - np.float32(1)  # noqa: E731
        return [replace(entry, name=tensor.new_name(name), rows=rows)]

    return rule


def conv1d(name: str) -> Rule:
    """Return a rule that transposes a matrix, because GPT-2 checkpoints store it as [in, out].

    Args:
        name: New name within the layer, without suffix.
    """
    return lambda tensor: [_swap_axes(tensor.entry, tensor.new_name(name))]


def split_experts(name: str) -> Rule:
    """Return a rule that splits a stack of experts into one matrix per expert.

    Args:
        name: New name within the layer, without suffix; ``{}`` is replaced by the index of the
            expert.
    """

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        """Return the tensor of each expert in a stack.

        A stack with the wrong shape is returned unchanged, so that a later check rejects it.
        """
        count = tensor.entry.shape[0]
        if len(tensor.entry.shape) != 3 or count != tensor.header.count("expert_count"):
            return [tensor.entry]  # rejected later, because no family knows this name
        return [_expert(tensor.entry, tensor.new_name(name.format(index)), index) for index in range(count)]

    return rule


def gate_up(experts: str, *, interleaved: bool) -> Rule:
    """Return a rule that combines the gate and up projections of all experts into ``gate_up_proj``.

    Args:
        experts: Name of the experts within the layer.
        interleaved: Whether the outputs of gate and up alternate, as in gpt-oss. Otherwise all
            outputs of gate come first, as in Llama 4.
    """

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        """Return the gate and up projections of all experts as one tensor.

        If the up projections are missing or have a different shape, only the gate is returned.
        """
        up = tensor.neighbour("ffn_up_exps")
        if up is None or up.shape != tensor.entry.shape or len(up.shape) < 2:
            return [tensor.entry]
        name = f"{tensor.prefix}{experts}.gate_up_proj"
        if tensor.suffix == "bias":
            return [_join(tensor.entry, up, f"{name}_bias", interleaved=interleaved)]
        return [_swap_axes(_join(tensor.entry, up, name, interleaved=interleaved), name)]

    return rule


def down_projections(experts: str) -> Rule:
    """Return a rule that renames and transposes the output projections of all experts to [in, out].

    Args:
        experts: Name of the experts within the layer.
    """

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        """Return the renamed bias, or the transposed output projections of all experts."""
        name = f"{tensor.prefix}{experts}.down_proj"
        is_bias = tensor.suffix == "bias"
        return [replace(tensor.entry, name=f"{name}_bias") if is_bias else _swap_axes(tensor.entry, name)]

    return rule


def latent_keys(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return DeepSeek's matrix kv_b_proj, combined from two GGUF tensors.

    The matrix [heads x (nope + value), rank] maps compressed vectors of ``rank`` features to the
    keys (``nope`` features without rotary positions) and values of all heads. llama.cpp splits it
    into keys [heads, rank, nope], which are the input of this rule, and values [heads, value,
    rank]. If the values are missing or do not fit, the keys are returned alone.
    """
    keys, values = tensor.entry, tensor.neighbour("attn_v_b")
    fits = values is not None and len(values.shape) == len(keys.shape) == 3
    if values is None or not fits or (values.shape[0], values.shape[2]) != keys.shape[:2]:
        return [keys]
    heads, rank, nope = keys.shape
    shape = (heads * (nope + values.shape[1]), rank)

    def read(rows: RowSelection) -> Array:
        """Return selected rows of the matrix that combines keys and values."""
        keys_and_values = [keys.rows(slice(None)).swapaxes(1, 2), values.rows(slice(None))]
        return np.concatenate(keys_and_values, axis=1).reshape(shape)[rows]

    stored_bytes = keys.stored_bytes + values.stored_bytes
    name = tensor.new_name("self_attn.kv_b_proj")
    return [replace(keys, name=name, shape=shape, stored_bytes=stored_bytes, rows=read)]


def with_neighbour(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return no tensors: the rule for a tensor that another tensor's rule has already converted."""
    return ()


def _swap_axes(entry: TensorEntry, name: str) -> TensorEntry:
    """Return a matrix, or a stack of matrices, with the two axes of each matrix swapped."""
    if len(entry.shape) == 3:
        shape = (entry.shape[0], entry.shape[2], entry.shape[1])
        return replace(entry, name=name, rows=lambda rows: entry.rows(rows).swapaxes(1, 2), shape=shape)
    if len(entry.shape) != 2:
        return replace(entry, name=name)
    return replace(entry, name=name, rows=lambda rows: entry.rows(slice(None)).T[rows], shape=entry.shape[::-1])


def _expert(entry: TensorEntry, name: str, index: int) -> TensorEntry:
    """Return one expert's part of a tensor that contains all experts, under a new name."""
    return replace(
        entry,
        name=name,
        shape=entry.shape[1:],
        stored_bytes=entry.stored_bytes // entry.shape[0],
        rows=lambda rows: entry.array((index,))[rows],
    )


def _join(first: TensorEntry, second: TensorEntry, name: str, *, interleaved: bool) -> TensorEntry:
    """Combine two stacks of expert tensors into one along the second axis.

    Args:
        first, second: Stacks [experts, rows, ...] of the same shape.
        name: Name of the result.
        interleaved: Whether the rows of the two stacks alternate. Otherwise all rows of ``first``
            come first.
    """
    shape = (first.shape[0], 2 * first.shape[1], *first.shape[2:])

    def read(rows: RowSelection) -> Array:
        """Return the combined matrices of the selected experts."""
        stack = np.stack([first.rows(rows), second.rows(rows)], axis=2 if interleaved else 1)
        return stack.reshape(stack.shape[0], *shape[1:])

    return replace(first, name=name, shape=shape, stored_bytes=first.stored_bytes + second.stored_bytes, rows=read)
