"""Model error: how far predicted times are from measured ones that nothing was fitted on.

The errors are stored in ``wse/data/model_errors.csv``, which ``tools/model_errors.py`` writes from
the measurements of ``wse validate``. Each is the ratio of a measured to a predicted time. There are
two kinds, decode and prefill, because their errors differ by a factor of three.

Three choices, with their reasons:

1. All groups of measurements have equal weight. A group of 64 rows from one project would
   otherwise outweigh the 13 services.
2. An error is used with both signs. Two or three groups show how large errors are, but not that
   other software is always faster or always slower than predicted.
3. Errors multiply the effect of uncertain constants. The predictions in the file were made with the
   stated constants, so their errors contain a part of that effect, which is then counted twice.
   The interval is therefore rather too wide than too narrow. The errors of services also contain
   what is not disclosed: the numbers of wafers, precision and drafts.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np

from wse.arrays import F64

FILE: Final = Path(__file__).parents[3] / "data" / "model_errors.csv"

ErrorKind = Literal["decode", "prefill"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelError:
    """Probability distribution of the timing model's error, which is symmetrical around 0.

    The error is the logarithm of the ratio of actual to predicted time.

    Attributes:
        sizes: float64 ``[n]``, absolute errors in ascending order, beginning with 0.
        probabilities: float64 ``[n]``, for each of the ``sizes``, the probability that an error is
            at most this large.
    """

    sizes: F64
    probabilities: F64

    def at(self, probabilities: F64) -> F64:
        """Return the quantiles of the error at cumulative probabilities.

        Args:
            probabilities: float64 ``[n]`` from 0 to 1.
        """
        signed = 2 * probabilities - 1
        return np.asarray(np.sign(signed) * np.interp(np.abs(signed), self.probabilities, self.sizes))


NO_ERROR: Final = ModelError(sizes=np.zeros(2), probabilities=np.array([0.0, 1.0]))
"""Model error of a model that is exact."""


@cache
def model_error(kind: ErrorKind, *, without_source: str = "") -> ModelError:
    """Return the distribution of the timing model's error, as observed in measurements.

    Args:
        kind: Kind of prediction: ``decode`` or ``prefill``.
        without_source: Publication whose measurements are left out, so that an interval for one of
            them does not depend on that measurement. Empty to use all measurements.
    """
    rows = [row for row in _rows() if row["kind"] == kind and row["source"] != without_source]
    return error_distribution([float(row["time_ratio"]) for row in rows], [row["group"] for row in rows])


def error_distribution(ratios: Sequence[float], groups: Sequence[str]) -> ModelError:
    """Return the distribution of the errors of predictions for some measurements.

    All groups of measurements have equal weight. Errors in both directions are assumed to be
    equally likely.

    Args:
        ratios: For each measurement, the measured divided by the predicted value, or the
            reciprocal.
        groups: Group of each measurement.
    """
    rows_by_group = Counter(groups)
    sizes = np.abs(np.log(ratios))
    weights = np.array([1 / rows_by_group[group] for group in groups]) / len(rows_by_group)
    order = sizes.argsort()
    return ModelError(
        sizes=np.append(0.0, sizes[order]),
        probabilities=np.append(0.0, weights[order].cumsum()),
    )


def coverage(kind: ErrorKind, confidence: float) -> dict[str, float]:
    """Return how many measurements are inside an interval around their prediction, by group.

    The interval for each measurement is computed without the measurements of the same source. It
    accounts only for the model error. An interval that also accounts for uncertain constants is
    wider and covers more measurements.

    Args:
        kind: Kind of prediction: ``decode`` or ``prefill``.
        confidence: Confidence of the interval, such as 0.9.

    Returns:
        Fraction of the measurements inside their interval, keyed by group.
    """
    rows = [row for row in _rows() if row["kind"] == kind]
    covered_by_group: dict[str, list[bool]] = {}
    for row in rows:
        limit = model_error(kind, without_source=row["source"]).at(np.array([0.5 + confidence / 2]))[0]
        covered_by_group.setdefault(row["group"], []).append(bool(abs(np.log(float(row["time_ratio"]))) <= limit))
    return {group: float(np.mean(is_inside)) for group, is_inside in covered_by_group.items()}


@cache
def _rows() -> list[dict[str, str]]:
    """Return the rows of ``model_errors.csv``, each with the error of one prediction."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
