"""Random numbers equal those of the published generator at any position, and are nearly normal."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import EXAMPLES, JIT
from wse_kernels.library import compiled_kernel
from wse_kernels.oracle import random_numbers as oracle

WORDS = st.integers(0, 2**64 - 1)
SINGLES = st.floats(-8, 8, width=32)
DEVIATION = math.sqrt((2**32 - 1) / 3)


def drawn(key: int, first: int, count: int, mean: float = 0.0, factor: float = 1.0) -> Any:
    values: npt.NDArray[np.float32] = np.empty(count, np.float32)
    with np.errstate(over="ignore"):  # which numpy's single numbers warn of, and arrays and kernels do not
        compiled_kernel("normal_numbers").serial(
            values, np.uint64(key), np.uint64(first), np.float32(mean), np.float32(factor)
        )
    return values


def test_words_are_those_of_splitmix64() -> None:
    """The expected values are published.

    They are for seed 1234567, from https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
    """
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [oracle._word(1234567, place) for place in range(4)] == published


@given(key=WORDS, first=WORDS, count=st.integers(0, 40), mean=SINGLES, factor=SINGLES)
@settings(max_examples=EXAMPLES, deadline=None)
def test_kernel_and_oracle_agree(key: int, first: int, count: int, mean: float, factor: float) -> None:
    wanted = np.empty(count, np.float32)
    oracle.normal_numbers(wanted, key, first, mean, factor)
    np.testing.assert_array_equal(drawn(key, first, count, mean, factor), wanted)


@pytest.mark.skipif(not JIT, reason="interpreted, so many numbers take long")
def test_numbers_are_near_to_a_normal_distribution() -> None:
    """Mean, deviation and quantiles are compared.

    The sum of four parts has fewer values far from the mean.
    """
    values = drawn(3, 0, 1 << 20, factor=1 / DEVIATION).astype(np.float64)
    assert abs(values.mean()) < 4 / 1024
    assert abs(values.std() - 1) < 4 / 1024
    for share in (0.01, 0.1, 0.3, 0.5, 0.8, 0.95):
        assert abs(np.quantile(values, share) - NormalDist().inv_cdf(share)) < 0.1, share
    assert 3 < np.abs(values).max() <= 2 * 0xFFFF / DEVIATION
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / 1024
