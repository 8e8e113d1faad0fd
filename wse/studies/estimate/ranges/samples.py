"""Latin hypercube samples of numbers that have a range."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.arrays import F64
from wse.hardware.number import SourcedNumber

SAMPLES: Final = 400
"""Default number of samples. Twice as many move the ends of an interval by about 1 %."""


def latin_hypercube(dimensions: int, samples: int, seed: int) -> F64:
    """Return points of the unit cube, float64 ``[samples, dimensions]``.

    In each dimension, there is one point in each of ``samples`` equal intervals (McKay, Beckman and
    Conover, Technometrics 1979).

    Args:
        dimensions: Number of dimensions.
        samples: Number of points.
        seed: Seed of the random numbers. Equal seeds give equal points.
    """
    generator = np.random.default_rng(seed)
    columns = [(generator.permutation(samples) + generator.random(samples)) / samples for _ in range(dimensions)]
    return np.stack(columns, axis=1) if columns else np.zeros((samples, 0))


def values_at(number: SourcedNumber, probabilities: F64) -> F64:
    """Return the values of a number at cumulative probabilities.

    The median is the stated value. Values between the lower end of the range and the stated value
    are equally likely, and so are the values between the stated value and the upper end.

    Args:
        number: The number with its range.
        probabilities: float64 ``[n]`` from 0 to 1.
    """
    return np.interp(probabilities, (0.0, 0.5, 1.0), number.low_value_high)
