"""Rules that turn one tensor of a GGUF file into those of Hugging Face's names: llama.cpp's own conventions undone.

Nothing is decoded here: each rule makes entries that decode when they are read. Conventions: ``convert_hf_to_gguf.py``
of github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from wse.models.gguf.blocks import BLOCK_KINDS
from wse.models.gguf.file import PLAIN, GgufFile, GgufTensor
from wse.models.gguf.header import Header
from wse.models.tensors.tensor_entry import Array, Rows, Stretch, TensorEntry, mapped_array, plain_entry


def stored_entry(gguf: GgufFile, tensor: GgufTensor) -> TensorEntry:
    """Return a tensor as it is in the file."""
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
    """A tensor for a rule: its entry, its layer's prefix, its suffix in the new name, and its neighbours."""

    entry: TensorEntry
    prefix: str
    suffix: str  # weight or bias
    beside: Callable[[str], TensorEntry | None]  # another tensor of the layer, by GGUF name without the suffix
    header: Header

    def new_name(self, inside: str) -> str:
        """Return the new name."""
        return f"{self.prefix}{inside}.{self.suffix}"


Rule = Callable[[StoredTensor], Iterable[TensorEntry]]


def rename(inside: str) -> Rule:
    """Another name, nothing else."""
    return lambda tensor: [replace(tensor.entry, name=tensor.new_name(inside))]


def rename_whole(inside: str) -> Rule:
    """Another name, whole, for any suffix."""
    return lambda tensor: [replace(tensor.entry, name=tensor.prefix + inside)]


def queries(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return queries, whose rotated pairs are neighbours, with split halves."""
    return [_split_halves(tensor, "self_attn.q_proj", tensor.header.size("attention.head_count"))]


def keys(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return keys, whose rotated pairs are neighbours, with split halves."""
    return [_split_halves(tensor, "self_attn.k_proj", tensor.header.kv_heads)]


def gain(inside: str) -> Rule:
    """Gains that are stored with one added."""

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        entry = tensor.entry
        rows: Rows = lambda rows: entry.rows(rows).astype(np.float32) - np.float32(1)  # noqa: E731
        return [replace(entry, name=tensor.new_name(inside), rows=rows)]

    return rule


def conv1d(inside: str) -> Rule:
    """Return a rule for a matrix that GPT-2 checkpoints store as [in, out]."""
    return lambda tensor: [_swap_axes(tensor.entry, tensor.new_name(inside))]


def split_experts(inside: str) -> Rule:
    """Return a rule that splits a stack of experts into single matrices; ``{}`` is the expert."""

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        count = tensor.entry.shape[0]
        if len(tensor.entry.shape) != 3 or count != tensor.header.count("expert_count"):
            return [tensor.entry]  # it is refused under its own name
        return [_expert(tensor.entry, tensor.new_name(inside.format(index)), index) for index in range(count)]

    return rule


def gate_up(experts: str, *, in_turn: bool) -> Rule:
    """Return a rule that combines gate and up into one tensor, interleaved (gpt-oss) or in sequence (Llama 4)."""

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        up = tensor.beside("ffn_up_exps")
        if up is None or up.shape != tensor.entry.shape or len(up.shape) < 2:
            return [tensor.entry]
        name = f"{tensor.prefix}{experts}.gate_up_proj"
        if tensor.suffix == "bias":
            return [_join(tensor.entry, up, f"{name}_bias", in_turn=in_turn)]
        return [_swap_axes(_join(tensor.entry, up, name, in_turn=in_turn), name)]

    return rule


def down(experts: str) -> Rule:
    """Return a rule for the down-projections of all experts as one tensor with matrices [in, out]."""

    def rule(tensor: StoredTensor) -> Iterable[TensorEntry]:
        name = f"{tensor.prefix}{experts}.down_proj"
        is_bias = tensor.suffix == "bias"
        return [replace(tensor.entry, name=f"{name}_bias") if is_bias else _swap_axes(tensor.entry, name)]

    return rule


def latent_keys(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return DeepSeek's kv_b_proj [heads x (nope + value), rank], which llama.cpp splits and partly transposes.

    Into keys [heads, rank, nope], which this rule is for, and values [heads, value, rank].
    """
    keys, values = tensor.entry, tensor.beside("attn_v_b")
    fits = values is not None and len(values.shape) == len(keys.shape) == 3
    if values is None or not fits or (values.shape[0], values.shape[2]) != keys.shape[:2]:
        return [keys]
    heads, rank, nope = keys.shape
    shape = (heads * (nope + values.shape[1]), rank)

    def read(rows: Stretch) -> Array:
        both = [keys.rows(slice(None)).swapaxes(1, 2), values.rows(slice(None))]
        return np.concatenate(both, axis=1).reshape(shape)[rows]

    stored_bytes = keys.stored_bytes + values.stored_bytes
    name = tensor.new_name("self_attn.kv_b_proj")
    return [replace(keys, name=name, shape=shape, stored_bytes=stored_bytes, rows=read)]


def with_neighbour(tensor: StoredTensor) -> Iterable[TensorEntry]:
    """Return no entry: the rule of a neighbour takes the tensor too."""
    return ()


def _split_halves(tensor: StoredTensor, inside: str, heads: int) -> TensorEntry:
    """Return rows whose rotated pairs are neighbours, reordered to split halves of each head."""
    entry, name = tensor.entry, tensor.new_name(inside)
    size, odd = divmod(entry.shape[0], heads)
    if odd or size % 2:
        return replace(entry, name=name)  # its shape is refused when it is requested

    def read(rows: Stretch) -> Array:
        order = np.arange(entry.shape[0]).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)
        return entry.rows(order[rows])

    return replace(entry, name=name, rows=read)


def _swap_axes(entry: TensorEntry, name: str) -> TensorEntry:
    """Return a matrix, or each matrix of a stack, transposed."""
    if len(entry.shape) == 3:
        shape = (entry.shape[0], entry.shape[2], entry.shape[1])
        return replace(entry, name=name, rows=lambda rows: entry.rows(rows).swapaxes(1, 2), shape=shape)
    if len(entry.shape) != 2:
        return replace(entry, name=name)
    return replace(entry, name=name, rows=lambda rows: entry.rows(slice(None)).T[rows], shape=entry.shape[::-1])


def _expert(entry: TensorEntry, name: str, index: int) -> TensorEntry:
    """Return a tensor of a stack."""
    return replace(
        entry,
        name=name,
        shape=entry.shape[1:],
        stored_bytes=entry.stored_bytes // entry.shape[0],
        rows=lambda rows: entry.array((index,))[rows],
    )


def _join(first: TensorEntry, second: TensorEntry, name: str, *, in_turn: bool) -> TensorEntry:
    """Return two stacks of the same shape as one, interleaved (``in_turn``) or in sequence on the second axis."""
    shape = (first.shape[0], 2 * first.shape[1], *first.shape[2:])

    def read(rows: Stretch) -> Array:
        stack = np.stack([first.rows(rows), second.rows(rows)], axis=2 if in_turn else 1)
        return stack.reshape(stack.shape[0], *shape[1:])

    return replace(first, name=name, shape=shape, stored_bytes=first.stored_bytes + second.stored_bytes, rows=read)
