"""Speed of the two timing models on meshes of several sizes.

``pytest -s tests/benchmarks/test_timing_growth.py`` prints it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.timing_growth import FAST_SIDES, WAVELET_SIDES, Rates, measure, section


def test_exponents_are_those_of_the_rates() -> None:
    sides = np.array((4, 8, 16))
    rates = Rates("any", "links/s", tuple(sides), np.stack([3.0 * sides**2.0, 5.0 * sides**-1.0]))
    assert rates.exponents() == pytest.approx([1.0, -0.5])


def test_rates_of_all_meshes(by_size: BySize, say: Say) -> None:
    found = list(measure(by_size(small=(4, 8), full=WAVELET_SIDES), by_size(small=(32, 64), full=FAST_SIDES), 2))
    assert all(np.isfinite(rates.per_s).all() and (rates.per_s > 0).all() for rates in found)
    say(section(found))
