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
    """Return one column of a Latin hypercube, float64 ``[samples]`` from 0 to 1, in random order.

    The probabilities are used to sample one uncertain number. There is one probability in each of
    ``samples`` equal intervals (McKay, Beckman and Conover, Technometrics 1979). The column depends
    on the name, so all estimates with the same seed use the same samples of a constant and can be
    compared sample by sample.

    Args:
        name: Name of the constant or other uncertain number.
        samples: Number of samples.
        seed: Seed of the random numbers.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return (generator.permutation(samples) + generator.random(samples)) / samples


def values_at(number: SourcedNumber, probabilities: F64) -> F64:
    """Return the values of a number at cumulative probabilities.

    The median is the stated value. Values between the lower end of the range and the stated value
    are equally likely, and so are the values between the stated value and the upper end.

    Args:
        number: The number with its range.
        probabilities: float64 ``[n]`` from 0 to 1.
    """
    return np.asarray(np.interp(probabilities, (0.0, 0.5, 1.0), number.low_value_high))
