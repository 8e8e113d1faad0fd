"""Model error: how much predicted times differ from measurements that no constant was fitted to.

The errors are stored in ``wse/data/model_errors.csv``, which ``tools/model_errors.py`` writes from
the measurements of ``wse validate``. Each error is the ratio of a measured to a predicted time.
There are four kinds of predictions, because their errors differ by factors of two to three: decode
and prefill on wafers, and all times of dense models and of mixtures of experts on GPUs.

Four choices, with their reasons:

1. An estimate uses the errors that were measured with the same software, if at least
   `FEWEST_SOURCES` publications have any. Predictions for research kernels, whose settings are
   published, are several times closer than predictions for services, which disclose neither the
   number of wafers, nor the precision, nor the drafts. For other software, the errors of all
   software are used, and all errors of one publisher count as one publication.
2. The mean error is assumed to be 0. Most services are faster than predicted, and most runs with
   TensorRT-LLM are slower, but the reasons are unknown, so the next measurement may be different.
3. Errors of one publication have common causes, so there are fewer independent errors than
   measurements. The number of independent errors gives the degrees of freedom of the distribution
   (`error_distribution`).
4. Errors multiply the effect of uncertain constants. The predictions in the file were made with the
   stated constants, so their errors contain a part of that effect, which is then counted twice.
   The interval is therefore more likely to be too wide than too narrow.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np

from wse.arrays import F64

FILE: Final = Path(__file__).parents[3] / "data" / "model_errors.csv"

FEWEST_SOURCES: Final = 3
"""Smallest number of sources from whose errors an interval is made.

Errors of a single source do not show how much the predictions for another source may differ.
"""

LARGEST_LOG: Final = 5.0
"""Largest logarithm of a ratio of actual to predicted value that an interval may contain."""

Alternatives = Sequence[tuple[float, float]]
"""Possible settings of a measurement, as (probability, ratio) pairs.

The ratio is the predicted value with these settings, divided by the prediction.
"""
AS_PREDICTED: Final[Alternatives] = ((1.0, 1.0),)

ErrorKind = Literal["decode", "prefill", "gpu_dense", "gpu_experts"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelError:
    """Probability distribution of the error of the timing model.

    The error is the logarithm of the actual divided by the predicted time. Its distribution is
    symmetrical around 0, so it is stored for absolute values.

    Attributes:
        sizes: float64 ``[n]``, absolute values of errors in ascending order, beginning with 0.
        probabilities: float64 ``[n]``, for each of the ``sizes``, the probability that the absolute
            value of an error is at most this size.
    """

    sizes: F64
    probabilities: F64

    def at(self, probabilities: F64) -> F64:
        """Return the errors that belong to cumulative probabilities (quantiles).

        Args:
            probabilities: float64 ``[n]`` from 0 to 1.
        """
        signed = 2 * probabilities - 1
        return np.asarray(np.sign(signed) * np.interp(np.abs(signed), self.probabilities, self.sizes))

    def probability(self, errors: F64) -> F64:
        """Return, for each of some errors, the probability of a smaller error.

        Args:
            errors: Logarithms of ratios of actual to predicted times, of any shape.
        """
        size_probabilities = np.interp(np.abs(errors), self.sizes, self.probabilities, right=1.0)
        return np.asarray(0.5 + np.sign(errors) * size_probabilities / 2)

    def interval(self, confidence: float, alternatives: Alternatives = AS_PREDICTED) -> tuple[float, float]:
        """Return an interval that contains the actual time divided by its prediction.

        The interval is central: the actual value is equally likely to be below and above it.

        Args:
            confidence: Probability of the interval, such as 0.9.
            alternatives: (probability, ratio) for each setting with which the measurement may have
                been made. The ratio is the predicted value with this setting divided by the
                prediction. The distributions with all settings are combined, weighted by their
                probabilities.

        Returns:
            The low end and the high end of the interval.
        """
        logs = np.linspace(-LARGEST_LOG, LARGEST_LOG, 20_001)
        parts = [weight * self.probability(logs - np.log(ratio)) for weight, ratio in alternatives]
        low, high = np.exp(np.interp([(1 - confidence) / 2, (1 + confidence) / 2], sum(parts), logs))
        return float(low), float(high)


@cache
def model_error(kind: ErrorKind, software: str, *, without_source: str = "", without_publisher: str = "") -> ModelError:
    """Return the distribution of a timing model's error, as observed in measurements.

    Normally, only measurements with the same software are used. If they come from fewer than
    `FEWEST_SOURCES` publications, measurements with any software are used, grouped by publisher.

    Args:
        kind: Kind of prediction: ``decode`` or ``prefill`` on wafers, ``gpu_dense`` or
            ``gpu_experts`` on GPUs.
        software: Name of the software profile or serving stack of the prediction.
        without_source: Publication whose measurements are left out, so that the distribution can
            be tested on these measurements. Empty to use all measurements.
        without_publisher: Publisher of that publication. All of its measurements are left out if
            measurements with any software are used.
    """
    rows = [row for row in _rows() if row["kind"] == kind]
    own_rows = [row for row in rows if row["software"] == software]
    if are_enough([row["source"] for row in own_rows]):
        column, left_out_group, used_rows = "source", without_source, own_rows
    else:
        column, left_out_group, used_rows = "publisher", without_publisher, rows
    used_rows = [row for row in used_rows if row[column] != left_out_group]
    return error_distribution([float(row["time_ratio"]) for row in used_rows], [row[column] for row in used_rows])


def are_enough(sources: Sequence[str]) -> bool:
    """Return whether errors come from at least `FEWEST_SOURCES` different publications.

    Args:
        sources: Publication of each error.
    """
    return len({*sources}) >= FEWEST_SOURCES


def error_distribution(ratios: Sequence[float], groups: Sequence[str]) -> ModelError:
    """Return the distribution of the error of a prediction, from errors of other predictions.

    Errors are assumed to be normal with mean 0 and variance s^2, and errors of the same group to
    have the correlation r (a random effect for each group). All groups have the same weight: s^2 is
    the mean over groups of their mean squared error, and r is the mean product of two errors of the
    same group, divided by their mean square (Fisher, Statistical Methods for Research Workers,
    1925, section 38). The squares of such errors have the correlation r^2. With k groups, in which
    1/n is the mean reciprocal number of errors, the estimate of s^2 is thus as precise as one from

        v = k / (r^2 + (1 - r^2) / n)

    independent errors (Satterthwaite, Biometrics Bulletin 1946): from k if the errors of a group
    are equal, and from kn if they are independent. A new error divided by s then has Student's t
    distribution with v degrees of freedom. The distribution is wide if there are few groups.

    Args:
        ratios: For each measurement, at least one, the measured divided by the predicted value; or,
            for all of them, the reciprocal.
        groups: Group of each measurement, such as its publication.
    """
    assert groups
    names = np.array(groups)
    errors = [np.log(ratios)[names == name] for name in dict.fromkeys(groups)]
    counts = np.array([len(group) for group in errors])
    mean_squares = np.array([np.mean(group**2) for group in errors])
    product_means = np.array([_product_mean(group) for group in errors if len(group) > 1])
    repeated_squares = mean_squares[counts > 1].sum()
    correlation = max(0.0, product_means.sum() / repeated_squares) if repeated_squares else 0.0
    independent_errors = len(errors) / (correlation**2 + (1 - correlation**2) * np.mean(1 / counts))
    return _student_t(float(np.sqrt(mean_squares.mean())), float(independent_errors))


def _product_mean(errors: F64) -> float:
    """Return the mean product of two different errors. There must be at least two errors."""
    return float((errors.sum() ** 2 - np.sum(errors**2)) / (len(errors) * (len(errors) - 1)))


def _student_t(scale: float, degrees: float) -> ModelError:
    """Return Student's t distribution, multiplied by a scale.

    It is integrated over the angle a with t = sqrt(degrees) tan(a), in which its density is
    proportional to cos(a)^(degrees - 1).

    Args:
        scale: Factor by which the distribution is multiplied.
        degrees: Degrees of freedom, at least 1.
    """
    angles = np.linspace(0, np.pi / 2, 2001)
    densities = np.cos(angles) ** (degrees - 1)
    probabilities = np.append(0.0, np.cumsum(densities[1:] + densities[:-1]))
    return ModelError(
        sizes=scale * np.sqrt(degrees) * np.tan(angles[:-1]),
        probabilities=probabilities[:-1] / probabilities[-1],
    )


@cache
def _rows() -> list[dict[str, str]]:
    """Return the rows of ``model_errors.csv``, each with the error of one prediction."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
