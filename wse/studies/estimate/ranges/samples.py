"""Latin hypercube samples of numbers that have a range."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.hardware.number import SourcedNumber

SAMPLES: Final = 256
"""Number of samples, by default."""
SEED: Final = 0
"""Seed of the samples. It is fixed, so equal requests get equal ranges."""


def probabilities_of(name: str, samples: int, seed: int) -> F64:
    """Return the cumulative probabilities at which to sample one uncertain number.

    They are one column of a Latin hypercube (McKay, Beckman and Conover, Technometrics 1979): one
    random probability in each of ``samples`` equal intervals from 0 to 1, in random order. The
    column depends on the name. All estimates with the same seed therefore use the same samples of a
    constant, and can be compared sample by sample.

    Args:
        name: Name of the constant or other uncertain number.
        samples: Number of samples.
        seed: Seed of the random numbers.

    Returns:
        float64 ``[samples]``.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return (generator.permutation(samples) + generator.random(samples)) / samples


def values_at(number: SourcedNumber, probabilities: F64) -> F64:
    """Return the values of an uncertain number that belong to cumulative probabilities (quantiles).

    The median is the stated value. Below it, all values down to the low end of the range are
    equally likely, and so are all values from the median up to the high end.

    Args:
        number: The number with its range.
        probabilities: float64 ``[n]`` from 0 to 1.
    """
    return np.asarray(np.interp(probabilities, (0.0, 0.5, 1.0), number.low_value_high))
