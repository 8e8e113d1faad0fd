"""Mixture: which columns of a region hold which experts, and how many pairs of tokens and experts come to each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wse.arrays import I64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """The columns that hold the experts of every layer that has any.

    Attributes:
        count: Experts of a layer.
        active: Those that a token uses.
        by_column: int32 ``[cols, held]``: the experts of which a column stores a share, -1 for padding.
    """

    count: int
    active: int
    by_column: npt.NDArray[np.int32]

    def most_pairs(self, tokens: int) -> int:
        """Pairs of a token and an expert that a column may have to work on: a token chooses an expert once."""
        return tokens * min(self.active, int(self.by_column.shape[1]))

    def pairs_by_column(self, pairs: I64) -> I64:
        """int64 ``[cols]``: pairs on each column, of ``pairs`` ``[experts]`` by expert."""
        pairs_held = np.where(self.by_column < 0, 0, pairs[self.by_column])
        return np.asarray(pairs_held.sum(axis=1), np.int64)

    def even_pairs(self, tokens: int) -> I64:
        """int64 ``[experts]``: pairs by expert where tokens choose as evenly as they can, what is over spread out."""
        all_pairs = tokens * self.active
        over = all_pairs % self.count
        pairs = np.full(self.count, all_pairs // self.count, np.int64)
        pairs[np.arange(over) * self.count // max(over, 1)] += 1
        return pairs
