"""Tests of forecasts of layouts: they are exact for a linear property, and uncertain far from trials."""

import numpy as np
import pytest

from wse.compiler.search.exploring.candidates import ERROR, Forecast


def test_forecast_learns_weights_and_is_uncertain_far_from_trials() -> None:
    forecast = Forecast((0.0, 0.0))
    near_trials, far_from_trials = np.array([[2.0, 1.0]]), np.array([[2.0, 50.0]])
    assert forecast.deviation(far_from_trials).item() == 0
    for rows in (1.0, 2.0, 4.0):
        forecast.learn(np.array([rows, 1.0]), 100 + 10 * rows)
    assert forecast.of(near_trials).item() == pytest.approx(120, rel=0.01)
    assert forecast.deviation(near_trials).item() < ERROR * 120
    assert forecast.deviation(far_from_trials).item() > 10 * forecast.deviation(near_trials).item()
