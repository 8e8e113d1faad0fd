"""Mixture: assignment of the experts of a model to the columns of a region.

The methods also count the (token, expert) pairs of each column, which determine its work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wse.arrays import I64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """Assignment of experts to columns of PEs, which is the same for all layers of a region.

    A column of PEs stores some features of each of its experts.

    Attributes:
        count: Number of experts per layer.
        active: Number of experts that each token uses.
        by_column: int32 ``[cols, experts per column]``, the experts of each column, given by their
            positions; -1 is padding. The position of an expert is its index, unless
            ``Program.expert_order`` says otherwise.
    """

    count: int
    active: int
    by_column: npt.NDArray[np.int32]

    def max_pairs(self, tokens: int) -> int:
        """Return the maximum number of (token, expert) pairs that a column of PEs may process.

        The maximum is reached if all tokens select as many experts of the same column as possible.

        Args:
            tokens: Number of tokens.
        """
        return tokens * min(self.active, int(self.by_column.shape[1]))

    def pairs_by_column(self, pairs: I64) -> I64:
        """Return how many (token, expert) pairs each column of PEs processes.

        Args:
            pairs: int64 ``[experts]``, number of tokens routed to the expert at each position.

        Returns:
            int64 ``[cols]``.
        """
        pairs_held = np.where(self.by_column < 0, 0, pairs[self.by_column])
        return np.asarray(pairs_held.sum(axis=1), np.int64)

    def even_pairs(self, tokens: int) -> I64:
        """Return the number of tokens per expert if tokens are routed evenly, int64 ``[experts]``.

        Any remainder is spread evenly over the experts.
        """
        all_pairs = tokens * self.active
        remainder = all_pairs % self.count
        pairs = np.full(self.count, all_pairs // self.count, np.int64)
        pairs[np.arange(remainder) * self.count // max(remainder, 1)] += 1
        return pairs
