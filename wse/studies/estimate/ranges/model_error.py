"""Model error: how far predicted times are from measured ones that nothing was fitted on.

The errors are stored in ``wse/data/model_errors.csv``, which ``tools/model_errors.py`` writes from
the measurements of ``wse validate``. Each is the ratio of a measured to a predicted time. There are
four kinds, because their errors differ by factors of two to three: decode and prefill on wafers,
and all times of dense models and of mixtures of experts on GPUs.

Four choices, with their reasons:

1. An estimate uses the errors that were measured with the same software, if there are at least
   `FEWEST_ERRORS` of them from at least `FEWEST_SOURCES` sources. Predictions for research kernels,
   whose settings are published, are several times closer than predictions for services, which
   disclose neither the number of wafers, nor the precision, nor the drafts. For other software, the
   errors of all software are used, and each publisher has the same weight.
2. An error is used with both signs. Most services are faster than predicted, and most runs with
   TensorRT-LLM slower, but nobody knows why, so the next one may be different.
3. With n errors, the largest of them is taken to be exceeded with a probability of 1 / (n + 1), as
   in conformal prediction (Lei et al., Journal of the American Statistical Association 2018). This
   assumes that a new measurement is like the known ones. One of another publisher may not be.
4. Errors multiply the effect of uncertain constants. The predictions in the file were made with the
   stated constants, so their errors contain a part of that effect, which is then counted twice.
   The interval is therefore rather too wide than too narrow.
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

FEWEST_ERRORS: Final = 9
"""Smallest number of errors from which an interval is made.

With nine errors, the largest is exceeded with a probability of 10 %, so this is the smallest number
from which a 90 % interval can be made.
"""

FEWEST_SOURCES: Final = 3
"""Smallest number of sources from whose errors an interval is made.

Errors of a single source do not show how much the predictions for another source may differ.
"""

Alternatives = Sequence[tuple[float, float]]
"""Possible settings of a measurement, as (probability, ratio) pairs.

The ratio is the predicted value with these settings, divided by the prediction.
"""
AS_PREDICTED: Final[Alternatives] = ((1.0, 1.0),)

ErrorKind = Literal["decode", "prefill", "gpu_dense", "gpu_experts"]


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

    def probability(self, error: float) -> float:
        """Return the probability that the error is at most this large.

        Args:
            error: Logarithm of a ratio of actual to predicted time.
        """
        size_probability = np.interp(abs(error), self.sizes, self.probabilities, right=1.0)
        return float(0.5 + np.sign(error) * size_probability / 2)

    def covers(self, ratio: float, confidence: float, alternatives: Alternatives = AS_PREDICTED) -> bool:
        """Return whether a measured value is inside a central interval of its prediction.

        Args:
            ratio: Predicted value, divided by the measured one.
            confidence: Confidence of the interval, such as 0.9.
            alternatives: Settings that are possible. The interval is that of the mixture of their
                distributions.
        """
        probability = sum(weight * self.probability(float(np.log(ratio * other))) for weight, other in alternatives)
        return abs(probability - 0.5) <= confidence / 2


NO_ERROR: Final = ModelError(sizes=np.zeros(2), probabilities=np.array([0.0, 1.0]))
"""Model error of a model that is exact."""


@cache
def model_error(kind: ErrorKind, software: str, *, without_source: str = "") -> ModelError:
    """Return the distribution of a timing model's error, as observed in measurements.

    Only measurements with the same software are used if there are at least `FEWEST_ERRORS` of them
    from at least `FEWEST_SOURCES` publications. Otherwise, measurements with any software are used,
    and all publications have the same weight.

    Args:
        kind: Kind of prediction: ``decode`` or ``prefill`` on wafers, ``gpu_dense`` or
            ``gpu_experts`` on GPUs.
        software: Name of the software profile or serving stack of the prediction.
        without_source: Publication whose measurements are left out, so that the distribution can
            be tested on these measurements. Empty to use all measurements.
    """
    rows = [row for row in _rows() if row["kind"] == kind]
    own_rows = [row for row in rows if row["software"] == software]
    has_own_errors = are_enough([row["source"] for row in own_rows])
    used_rows = [row for row in (own_rows if has_own_errors else rows) if row["source"] != without_source]
    publishers = () if has_own_errors else [row["publisher"] for row in used_rows]
    return error_distribution([float(row["time_ratio"]) for row in used_rows], publishers)


def are_enough(sources: Sequence[str]) -> bool:
    """Return whether there are enough errors, from enough publications, for a distribution.

    Args:
        sources: Publication from which each error is known.
    """
    return len(sources) >= FEWEST_ERRORS and len({*sources}) >= FEWEST_SOURCES


def error_distribution(ratios: Sequence[float], groups: Sequence[str] = ()) -> ModelError:
    """Return the distribution of the errors of predictions for some measurements.

    Errors in both directions are assumed to be equally likely.

    Args:
        ratios: For each measurement, the measured divided by the predicted value, or the
            reciprocal.
        groups: Group of each measurement, such as its publisher; all groups then have the same
            weight. By default, all measurements have the same weight.
    """
    sizes = np.abs(np.log(ratios))
    rows_by_group = Counter(groups)
    weights = np.array([1 / rows_by_group[group] for group in groups] or np.ones(len(sizes)))
    weights /= weights.sum()
    order = sizes.argsort()
    not_larger = len(sizes) / (len(sizes) + 1)  # probability that a new error is not the largest
    return ModelError(
        sizes=np.append(0.0, sizes[order]),
        probabilities=np.append(0.0, not_larger * weights[order].cumsum()),
    )


def coverage(kind: ErrorKind, confidence: float) -> dict[str, float]:
    """Return the fraction of measurements that are inside the interval of their prediction.

    The interval for each measurement is computed without the measurements of the same source. It
    accounts only for the model error. An interval that also accounts for uncertain constants is
    wider and covers more measurements.

    Args:
        kind: Kind of prediction, as in `model_error`.
        confidence: Confidence of the interval, such as 0.9.

    Returns:
        Fractions, keyed by the name of the software profile or serving stack.
    """
    inside_by_software: dict[str, list[bool]] = {}
    for row in (row for row in _rows() if row["kind"] == kind):
        error = model_error(kind, row["software"], without_source=row["source"])
        inside_by_software.setdefault(row["software"], []).append(error.covers(float(row["time_ratio"]), confidence))
    return {software: float(np.mean(is_inside)) for software, is_inside in inside_by_software.items()}


@cache
def _rows() -> list[dict[str, str]]:
    """Return the rows of ``model_errors.csv``, each with the error of one prediction."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
