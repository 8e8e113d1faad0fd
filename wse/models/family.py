"""Family: what one file of `wse.models.families` has to say."""

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
class Piece:
    """Rows of a canonical tensor, taken from one tensor of the file: ``file[index]``, transposed, rows in order.

    Our row r is row ``rows[r]`` of what was cut out; None leaves them as they are.
    """

    file_name: str
    file_shape: tuple[int, ...]
    index: Index = ()
    transposed: bool = False
    rows: NDArray[np.intp] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is cut out."""
        return self._in_order(np.broadcast_to(np.int8(0), self.file_shape)[self.index]).shape

    @property
    def is_cut_by_rows(self) -> bool:
        """True if rows of the canonical tensor are rows of the file, so that a part can be read alone."""
        if self.transposed or (self.rows is not None and self.index):
            return False
        return not self.index or isinstance(self.index[0], slice)

    def read_values(self, count: int) -> int:
        """Return the number of values of the file that are read and decoded for ``count`` rows."""
        lead = self.index[0] if self.index else slice(None)
        all_rows = len(range(self.file_shape[0])[lead]) if isinstance(lead, slice) else 1
        return (count if self.is_cut_by_rows else all_rows) * math.prod(self.file_shape[1:])

    def cut(self, entry: TensorEntry, stretch: slice = slice(None)) -> Array:
        """Return the rows, or a range of them, as a view of the entry unless they are reordered.

        No more is decoded than the stretch, where the rows are rows of the file.
        """
        if not self.is_cut_by_rows:
            return self._in_order(entry.array(self.index))[stretch]
        if self.rows is not None:
            return entry.rows(self.rows[stretch])
        lead, *inner_index = self.index or (slice(None),)
        assert isinstance(lead, slice)
        indices = range(self.file_shape[0])[lead][stretch]
        return entry.array((slice(indices.start, indices.stop, indices.step), *inner_index))

    def _in_order(self, array: Array) -> Array:
        array = array.T if self.transposed else array
        return array if self.rows is None else array[self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTensor:
    """A canonical tensor and its location in a checkpoint: the rows of ``pieces``, one after another."""

    name: str  # ours, e.g. layers.0.q
    pieces: tuple[Piece, ...]


def harmless_names(*patterns: str) -> Callable[[ModelSpec], re.Pattern[str]]:
    """Return a predicate for names of tensors without trained values, such as tables of rotary positions."""
    pattern = re.compile("|".join((r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq", *patterns)))
    return lambda spec: pattern


def harmless_names_beyond(spec: ModelSpec) -> re.Pattern[str]:
    """Return a predicate like `harmless_names` that also accepts an additional layer for multi-token prediction."""
    return re.compile(rf"model\.layers\.{spec.layer_count}\..*|{harmless_names()(spec).pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A model family: how its files map to a `ModelSpec` and to canonical tensors.

    Attributes:
        model_types: What ``model_type`` says in its configs; the first is the family's name.
        read: Spec of a config, given the model's name and the element type where none is stated. Keys that it does not
            read are refused afterwards, unless they are harmless in every family.
        tensors: Every tensor of `wse.models.tensors.model_tensors` for a spec; the names that the file contains tell
            which of a family's ways of writing them it uses.
        harmless_keys: Keys of its configs that are no part of the mathematics.
        harmless_tensors: File names that carry nothing trained.
        tied_copy: File name of the head that a tied checkpoint may hold as a second copy.
    """

    model_types: tuple[str, ...]
    read: Callable[[ConfigReader, str, str], ModelSpec]
    tensors: Callable[[ModelSpec, Collection[str]], Iterator[WantedTensor]]
    harmless_keys: frozenset[str] = frozenset()
    harmless_tensors: Callable[[ModelSpec], re.Pattern[str]] = harmless_names()  # noqa: RUF009 (a function)
    tied_copy: str = "lm_head.weight"
