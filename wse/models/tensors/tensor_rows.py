"""TensorRows: one of our tensors, read from its file a stretch of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from wse.models.family import WantedTensor
from wse.models.tensors.mapped_file import MappedFile
from wse.models.tensors.tensor_entry import Array, TensorEntry


class TensorRows:
    """A tensor that gives ``rows[first:last]`` as an array: float32, or the file's type where it holds plain numbers.

    Only what belongs to these rows is read and decoded, and nothing is kept. The pages of the files that were read
    before are let go first, so that no more of a file is in memory than what one stretch takes.
    """

    def __init__(self, wanted: WantedTensor, entries: Mapping[str, TensorEntry], files: Collection[MappedFile]) -> None:
        self._pieces = [(piece, entries[piece.file_name]) for piece in wanted.pieces]
        shapes = [piece.shape for piece, _ in self._pieces]
        self._counts = [shape[0] for shape in shapes]
        self._files = files
        self.shape = (sum(self._counts), *shapes[0][1:])

    def __getitem__(self, rows: slice) -> Array:
        """The rows of a slice without a step."""
        for file in self._files:
            file.let_go()
        first, last, _ = rows.indices(self.shape[0])
        found, at = [], 0
        for (piece, entry), count in zip(self._pieces, self._counts, strict=True):
            begin, end = max(first - at, 0), min(last - at, count)
            if begin < end:
                found.append(piece.cut(entry, slice(begin, end)))
            at += count
        if not found:
            return np.zeros((0, *self.shape[1:]), np.float32)
        return found[0] if len(found) == 1 else np.concatenate(found)
