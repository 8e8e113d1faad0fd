"""Tests of sampled ranges of rows, and of the fraction of samples in which the best row is better than the second."""

from __future__ import annotations

import numpy as np
import pytest

import wse
from wse.reports.intervals import SAMPLED_ON_WAFERS
from wse.studies.compare.grid.ranges import order_sentence, orders_of, with_ranges
from wse.tracing.query.two_traces.comparison_row import ComparisonRow


def row(wafers: int, speed: float, cost: float, mapping: str = "bands") -> ComparisonRow:
    """Return a row with a speed for one user and a cost in USD per million tokens."""
    return ComparisonRow(
        mapping=mapping, wafers=wafers, tokens_per_s_per_user=speed, usd_per_million_tokens=cost, users=1
    )


def test_orders_compare_the_best_two_numbers_of_wafers_in_equal_samples() -> None:
    rows = [row(1, 90, 2.0), row(1, 100, 3.0, "region"), row(2, 80, 1.0)]
    speeds = np.array([100.0, 50, 90, 70])
    samples = [
        {"tokens_per_s_per_user": speeds * 0.9, "usd_per_million_tokens": np.full(4, 2.0)},
        {"tokens_per_s_per_user": speeds, "usd_per_million_tokens": np.full(4, 3.0)},
        {"tokens_per_s_per_user": np.array([80.0, 80, 80, 80]), "usd_per_million_tokens": np.array([1.0, 1, 1, 3])},
    ]
    speed, cost = orders_of(rows, samples)
    assert (speed.first, speed.second, speed.share, speed.samples) == (1, 2, 0.5, 4)
    assert (cost.first, cost.second, cost.share) == (2, 0, 0.75)
    sentence = order_sentence(rows, (speed, cost))
    assert sentence == (
        f"In 50 % of 4 samples of the uncertain inputs ({SAMPLED_ON_WAFERS}; the same for all rows), "
        "one user is faster on 1 wafer (region) than on the next best number of wafers, 2 wafers (bands); in "
        "75 %, a token is cheaper on 2 wafers (bands) than on the next best number of wafers, 1 wafer (bands). "
        "Intervals marked 90 % contain 90 % of the samples."
    )
    assert orders_of(rows[:1], samples[:1]) == ()
    assert order_sentence(rows[:1], ()) == ""


def test_row_without_room_for_users_has_no_ranges() -> None:
    empty = row(1, 90, 2.0)
    assert with_ranges(empty, {}) is empty


def test_rows_have_ranges_around_their_figures_and_those_of_an_estimate() -> None:
    options = {"mesh": "16x16", "prompt_len": 8, "new_tokens": 8, "mapping": "region", "schedule": "baseline"}
    result = wse.compare("story", wafers=[1, 2], jobs=1, **options)
    for result_row in result.possible:
        for name, interval in result_row.ranges.items():
            assert interval.value == getattr(result_row, name)
            assert interval.low < interval.value < interval.high
    estimate = wse.estimate("story", **options)
    first = next(
        result_row for result_row in result.possible if result_row.wafers == 1 and result_row.objective == "latency"
    )
    figures = first.ranges["tokens_per_s_per_user"], estimate.ranges["serving.tokens_per_s_per_user"]
    assert (figures[0].low, figures[0].high) == pytest.approx((figures[1].low, figures[1].high))
    assert result.orders is not None
    assert result.verdict[-1] == order_sentence(result.rows, result.orders)


def test_ranked_machines_have_ranges_around_their_figures() -> None:
    options = {"mesh": "24x24", "prompt_len": 64, "new_tokens": 64, "mapping": "region", "schedule": "baseline"}
    result = wse.compare("story", wafers=[1], users=8, gpu=["h100"], jobs=1, **options)
    assert {row.kind for row in result.rows} == {"wafer", "gpu"}
    for row in result.rows:
        for name, interval in row.ranges.items():
            assert interval.value == getattr(row, name)
            assert interval.low < interval.value < interval.high
    (cheaper,) = result.cheaper
    assert (cheaper.kind, cheaper.prompt_len, cheaper.new_tokens) == (result.rows[0].kind, 64, 64)
    assert 0.5 < cheaper.share <= 1
