"""Family: what one file of `wse.models.families` has to say."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wse.models.config_reader import ConfigReader
from wse.models.spec import ModelSpec
from wse.models.tensor_entry import Array, Index, TensorEntry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Rows of one of our tensors, cut out of one tensor of the file: ``file[index]``, transposed, rows in order.

    Our row r is row ``rows[r]`` of what was cut out; None leaves them as they are.
    """

    file_name: str
    file_shape: tuple[int, ...]
    index: Index = ()
    transposed: bool = False
    rows: NDArray[np.intp] | None = None

    def cut(self, entry: TensorEntry) -> Array:
        """The rows; a view of what the entry gives unless they are put in another order."""
        found = entry.array(self.index)
        found = found.T if self.transposed else found
        return found if self.rows is None else found[self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTensor:
    """One of our tensors and where a checkpoint has it: the rows of ``pieces``, one after another."""

    name: str  # ours, e.g. layers.0.q
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the files of one model family map to a `ModelSpec` and to our tensors.

    ``tensors`` gives every tensor of `wse.models.tensors` for a spec; the names that the file holds tell which of a
    family's ways of writing them it uses.
    """

    name: str
    read: Callable[[ConfigReader, str, str], ModelSpec]  # config, model name, dtype where none is stated
    tensors: Callable[[ModelSpec, Collection[str]], Iterator[WantedTensor]]
    tied_copy: str  # file name of the head that a tied checkpoint may hold as a second copy
    harmless_tensors: re.Pattern[str]  # file names that carry nothing trained


def whole(name: str, file_name: str, shape: tuple[int, ...]) -> WantedTensor:
    """A tensor that the file has as we do."""
    return WantedTensor(name=name, pieces=(Piece(file_name=file_name, file_shape=shape),))
