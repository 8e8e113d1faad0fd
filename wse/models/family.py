"""Family: the definition of a model family, as in the files of `wse.models.families`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wse.models.configs.config_reader import ConfigReader
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import Array, Index, TensorEntry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileSlice:
    """Some rows of a model tensor, and where a checkpoint file stores them.

    The rows are read from a tensor of the file in three steps:

    1. Select ``file_tensor[index]``.
    2. Transpose the selection if ``transposed``.
    3. Reorder its rows: row r of the result is row ``rows[r]`` of the selection.

    Attributes:
        file_name: Name of the tensor in the file.
        file_shape: Shape that this tensor must have.
        index: Selected part of the file's tensor; () for all of it.
        transposed: Whether the selected part is transposed.
        rows: Order of the rows, int [number of rows]; None to keep the file's order.
    """

    file_name: str
    file_shape: tuple[int, ...]
    index: Index = ()
    transposed: bool = False
    rows: NDArray[np.intp] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of selected rows."""
        return self._in_order(np.broadcast_to(np.int8(0), self.file_shape)[self.index]).shape

    @property
    def is_sliced_by_rows(self) -> bool:
        """True if each row of the slice is one row of the file's tensor.

        Such rows can be read one by one.
        """
        if self.transposed or (self.rows is not None and self.index):
            return False
        return not self.index or isinstance(self.index[0], slice)

    def read_values(self, count: int) -> int:
        """Return how many values of the file must be decoded to read ``count`` rows of this slice.

        If rows cannot be read one by one, the whole selection is decoded.
        """
        lead = self.index[0] if self.index else slice(None)
        all_rows = len(range(self.file_shape[0])[lead]) if isinstance(lead, slice) else 1
        return (count if self.is_sliced_by_rows else all_rows) * math.prod(self.file_shape[1:])

    def read(self, entry: TensorEntry, row_range: slice = slice(None)) -> Array:
        """Return all rows of this slice, or a range of rows.

        Only the requested rows are decoded if ``is_sliced_by_rows``, otherwise all of them. The
        result is a view of the entry's array unless rows are reordered.

        Args:
            entry: The file's tensor from which the slice is read.
            row_range: Range of rows to read; by default all.
        """
        if not self.is_sliced_by_rows:
            return self._in_order(entry.array(self.index))[row_range]
        if self.rows is not None:
            return entry.rows(self.rows[row_range])
        lead, *inner_index = self.index or (slice(None),)
        assert isinstance(lead, slice)
        indices = range(self.file_shape[0])[lead][row_range]
        return entry.array((slice(indices.start, indices.stop, indices.step), *inner_index))

    def _in_order(self, array: Array) -> Array:
        """Return an array from the file in the row order of wse, transposed if necessary."""
        array = array.T if self.transposed else array
        return array if self.rows is None else array[self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalTensor:
    """A model tensor under its wse name, and where a checkpoint stores it.

    Attributes:
        name: Name in wse, such as ``layers.0.q``, which is the same for all model families.
        slices: Slices of the file's tensors; their concatenated rows make up this tensor.
    """

    name: str
    slices: tuple[FileSlice, ...]


def harmless_names(*patterns: str) -> Callable[[ModelSpec], re.Pattern[str]]:
    """Return a function that tells which tensors of a checkpoint a model does not need.

    The function maps a model to a pattern for tensor names. The pattern matches rotary-frequency
    tables, which contain no trained values, and the names that ``patterns`` match.

    Args:
        patterns: Additional regular expressions, each matching a full tensor name in the file.
    """
    pattern = re.compile("|".join((r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq", *patterns)))
    return lambda spec: pattern


def harmless_names_beyond(spec: ModelSpec) -> re.Pattern[str]:
    """Return a pattern for the names of tensors to ignore, such as those of an additional layer.

    Some checkpoints contain an extra layer for multi-token prediction after the last layer. Its
    tensors are ignored in addition to the tensors that match `harmless_names`.
    """
    return re.compile(rf"model\.layers\.{spec.layer_count}\..*|{harmless_names()(spec).pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A model family: how its config becomes a `ModelSpec`, and where its files store tensors.

    Attributes:
        model_types: The ``model_type`` values in its configs. The first is the family's name.
        read: Function that returns the `ModelSpec` for a config. The caller adds the names of the
            model and of the family, and the element type if ``dtype`` is "" because the config does
            not specify it. Keys that the function does not read are rejected afterwards, unless
            they are harmless.
        tensors: Function that maps a spec and the tensor names in the file to all tensors of the
            model. If the family has several file layouts, the function recognises them by these
            names.
        harmless_keys: Config keys that do not affect the results, in addition to the keys that are
            harmless in all families.
        harmless_tensors: Function that maps a spec to a pattern for the names of tensors without
            trained values.
        tied_copy: Name in the file under which a checkpoint may store a second copy of the
            embedding table if the output head uses the same table.
    """

    model_types: tuple[str, ...]
    read: Callable[[ConfigReader], ModelSpec]
    tensors: Callable[[ModelSpec, Collection[str]], Iterator[CanonicalTensor]]
    harmless_keys: frozenset[str] = frozenset()
    harmless_tensors: Callable[[ModelSpec], re.Pattern[str]] = harmless_names()  # noqa: RUF009 (a function)
    tied_copy: str = "lm_head.weight"
