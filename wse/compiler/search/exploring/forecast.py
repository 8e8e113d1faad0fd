"""A forecast of the cycles or bytes of a layout that was not tried, from those of layouts that were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wse.arrays import F64

PRIOR_WEIGHT = 1e-3
"""Weight of what is taken before anything was tried, against one trial: it decides where trials leave a choice."""


def features(rows: F64, cols: F64, even_rows: F64, even_cols: F64, stages: F64) -> F64:
    """Return the terms of the linear model of a token's cycles, float64 ``[layouts, 7]``.

    Launches are there for every layer, hops and relays with the length of lines, work on replicated values with the
    share of a row or of a column, multiply-adds with that of a PE, hand-overs with the stages. Shares are those of a
    region of ``even_rows`` and ``even_cols``, on which nothing would be padded.
    """
    shares = [1 / even_rows, 1 / even_cols, 1 / (even_rows * even_cols)]
    return np.stack([np.ones_like(rows), rows, cols, *shares, stages], axis=1)


class Forecast:
    """A linear model of a number of a layout, such as its cycles, whose weights are fitted to the trials so far.

    The fit is the least sum of squares of relative errors, with a small penalty for what departs from the weights that
    are taken before (ridge regression; Hoerl and Kennard, Technometrics 1970). No term makes it less: those
    whose weight would be negative are left out, and the rest is fitted again.
    """

    def __init__(self, prior: Sequence[float]) -> None:
        self._prior = np.asarray(prior, np.float64)
        self._weights = self._prior
        self._terms = np.empty((0, len(self._prior)))

    @property
    def trials(self) -> int:
        """Trials that were taken in."""
        return len(self._terms)

    def learn(self, of_layout: F64, value: float) -> None:
        """Update the model with a trial."""
        self._terms = np.vstack([self._terms, of_layout / value])
        parts = self._terms.mean(axis=0)  # of all, by term
        penalty = np.sqrt(PRIOR_WEIGHT)
        equations = np.vstack([self._terms / parts, penalty * np.eye(len(parts))])
        sums = np.concatenate([np.ones(len(self._terms)), penalty * self._prior * parts])
        kept = np.ones(len(parts), np.bool_)
        weights = np.linalg.lstsq(equations, sums, rcond=None)[0]
        while (weights < 0).any():
            kept &= weights >= 0
            weights = np.zeros(len(parts))
            weights[kept] = np.linalg.lstsq(equations[:, kept], sums, rcond=None)[0]
        self._weights = weights / parts

    def of(self, of_layouts: F64) -> F64:
        """Return the forecast number for layouts with given terms, float64 ``[layouts]``."""
        return np.asarray(of_layouts @ self._weights, np.float64)
