"""The tensors of a GGUF file as entries, and what undoes the ways in which llama.cpp stores them.

Nothing is decoded here: each function makes an entry that decodes when it is read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse.models.gguf.blocks import BLOCK_KINDS
from wse.models.gguf.file import PLAIN, GgufFile, GgufTensor
from wse.models.tensors.tensor_entry import Array, Rows, Stretch, TensorEntry, mapped_array, plain_entry


def stored_entry(gguf: GgufFile, tensor: GgufTensor) -> TensorEntry:
    """A tensor as it is in the file."""
    if tensor.kind in PLAIN:
        array = mapped_array(gguf.file, tensor.begin, tensor.shape, PLAIN[tensor.kind])
        return plain_entry(tensor.name, tensor.kind, array, gguf.file)
    kind = BLOCK_KINDS[tensor.kind]
    shape = (*tensor.shape[:-1], tensor.shape[-1] // kind.weights, kind.bytes)
    blocks = mapped_array(gguf.file, tensor.begin, shape, np.dtype(np.uint8))
    if len(tensor.shape) == 1:
        rows: Rows = lambda rows: kind.decoded(blocks)[rows]  # noqa: E731
    else:
        rows = lambda rows: kind.decoded(blocks[rows])  # noqa: E731
    return TensorEntry(
        name=tensor.name,
        kind=tensor.kind,
        shape=tensor.shape,
        stored_bytes=tensor.size_bytes,
        file=gguf.file,
        rows=rows,
    )


def split_halves(entry: TensorEntry, name: str, heads: int) -> TensorEntry:
    """Rows of queries or keys whose rotated pairs are neighbours, with the pairs across the halves of each head."""
    size, odd = divmod(entry.shape[0], heads)
    if odd or size % 2:
        return replace(entry, name=name)  # its shape is refused when it is asked for

    def read(rows: Stretch) -> Array:
        order = np.arange(entry.shape[0]).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)
        return entry.rows(order[rows])

    return _with_rows(entry, name, read)


def less_one(entry: TensorEntry, name: str) -> TensorEntry:
    """Gains that are stored with one added."""
    return _with_rows(entry, name, lambda rows: entry.rows(rows).astype(np.float32) - np.float32(1))


def swapped(entry: TensorEntry, name: str) -> TensorEntry:
    """A matrix with its axes swapped; of a stack of matrices, each."""
    if len(entry.shape) == 3:
        shape = (entry.shape[0], entry.shape[2], entry.shape[1])
        return _with_rows(entry, name, lambda rows: entry.rows(rows).swapaxes(1, 2), shape)
    if len(entry.shape) != 2:
        return replace(entry, name=name)
    return _with_rows(entry, name, lambda rows: entry.rows(slice(None)).T[rows], entry.shape[::-1])


def one_of(entry: TensorEntry, name: str, index: int) -> TensorEntry:
    """A tensor of a stack."""
    stored = entry.stored_bytes // entry.shape[0]
    single = _with_rows(entry, name, lambda rows: entry.array((index,))[rows], entry.shape[1:])
    return replace(single, stored_bytes=stored)


def joined(one: TensorEntry, other: TensorEntry, name: str, *, in_turn: bool) -> TensorEntry:
    """Two stacks of the same shape as one, whose second axis takes from both ``in_turn`` or one after the other."""

    def read(rows: Stretch) -> Array:
        both = np.stack([one.rows(rows), other.rows(rows)], axis=2 if in_turn else 1)
        return both.reshape(both.shape[0], *shape[1:])

    shape = (one.shape[0], 2 * one.shape[1], *one.shape[2:])
    return replace(_with_rows(one, name, read, shape), stored_bytes=one.stored_bytes + other.stored_bytes)


def expanded_keys_and_values(keys: TensorEntry, values: TensorEntry, name: str) -> TensorEntry:
    """DeepSeek's kv_b_proj [heads x (nope + value), rank], which llama.cpp splits and whose first part it transposes.

    Into ``keys [heads, rank, nope]`` and ``values [heads, value, rank]``.
    """
    heads, rank, nope = keys.shape
    rows_of_head = nope + values.shape[1]

    def read(rows: Stretch) -> Array:
        both = [keys.rows(slice(None)).swapaxes(1, 2), values.rows(slice(None))]
        return np.concatenate(both, axis=1).reshape(heads * rows_of_head, rank)[rows]

    shape = (heads * rows_of_head, rank)
    return replace(_with_rows(keys, name, read, shape), stored_bytes=keys.stored_bytes + values.stored_bytes)


def _with_rows(entry: TensorEntry, name: str, rows: Rows, shape: tuple[int, ...] | None = None) -> TensorEntry:
    return replace(entry, name=name, rows=rows, shape=entry.shape if shape is None else shape)
