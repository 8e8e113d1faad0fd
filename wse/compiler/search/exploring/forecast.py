"""Forecast of the cycles or bytes of an untried layout from the trials of other layouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wse.arrays import F64

PRIOR_WEIGHT = 1e-3
"""Weight of the initial guess relative to one trial. It matters only where trials do not decide."""


TERMS = 7
"""Number of terms of the linear models."""


def forecast_terms(rows: float, cols: float, even_rows: float, even_cols: float, stages: int) -> tuple[float, ...]:
    """Return the terms of a linear model of a layout's cycles or bytes.

    The terms represent the following costs:

    1. launches, which are the same for every layout
    2. hops and relays, proportional to the rows
    3. hops and relays, proportional to the columns
    4. work on values that are divided over rows only
    5. work on values that are divided over columns only
    6. multiply-adds, which are divided over all PEs of a region
    7. transfers between stages, proportional to their number

    Args:
        rows, cols: Total size of a region on all of its wafers; the mean if sizes differ.
        even_rows, even_cols: Size of a region that would have the same bytes per PE without
            padding.
        stages: Number of stages.
    """
    return 1.0, rows, cols, 1 / even_rows, 1 / even_cols, 1 / (even_rows * even_cols), stages


class Forecast:
    """A linear model of a property of layouts, such as cycles, fitted to the trials so far.

    The fit minimises the sum of squared relative errors, with a small penalty for deviations from
    the initial weights (ridge regression; Hoerl and Kennard, Technometrics 1970). Terms with a
    negative weight are removed, and the weights of the remaining terms are fitted again.
    """

    def __init__(self, prior: Sequence[float]) -> None:
        """Create a forecast from initial estimates of the weights of its linear model.

        Args:
            prior: The estimates, one per term.
        """
        self._prior = np.asarray(prior, np.float64)
        self._weights = self._prior
        self._terms = np.empty((0, len(self._prior)))

    @property
    def trials(self) -> int:
        """Number of trials to which the linear model has been fitted."""
        return len(self._terms)

    def learn(self, layout_terms: F64, value: float) -> None:
        """Fit the model to one more trial.

        Args:
            layout_terms: float64 ``[terms]``: terms of the layout.
            value: The measured value.
        """
        self._terms = np.vstack([self._terms, layout_terms / value])
        mean_terms = self._terms.mean(axis=0)  # scale of each term
        penalty = np.sqrt(PRIOR_WEIGHT)
        equations = np.vstack([self._terms / mean_terms, penalty * np.eye(len(mean_terms))])
        sums = np.concatenate([np.ones(len(self._terms)), penalty * self._prior * mean_terms])
        used_terms = np.ones(len(mean_terms), np.bool_)
        weights = np.linalg.lstsq(equations, sums, rcond=None)[0]
        while (weights < 0).any():
            used_terms &= weights >= 0
            weights = np.zeros(len(mean_terms))
            weights[used_terms] = np.linalg.lstsq(equations[:, used_terms], sums, rcond=None)[0]
        self._weights = weights / mean_terms

    def of(self, layout_terms: F64) -> F64:
        """Return the forecast values, such as cycles, of several layouts.

        Args:
            layout_terms: float64 ``[layouts, terms]``: terms of the layouts.

        Returns:
            float64 ``[layouts]``.
        """
        return np.asarray(layout_terms @ self._weights, np.float64)
