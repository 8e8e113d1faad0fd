"""Prices that a user gives: their names, bounds, and the machines of a request that they are for."""

from __future__ import annotations

import math

import pytest

from tests.hardware.helpers import refusal
from wse.errors import BadInput
from wse.serving.prices import gpu_price, prices_of_gpu, prices_without_gpus, read_prices, wafer_price


def test_text_and_a_mapping_give_the_same_prices() -> None:
    expected = {"wafer": 60.0, "h200": 2.5}
    assert read_prices("wafer=60, H200 = 2.5") == read_prices({"wafer": 60, "h200": 2.5}) == expected
    assert read_prices(None) == {}
    assert read_prices("wafer=1.5k") == {"wafer": 1_500.0}


@pytest.mark.parametrize(
    ("price", "message"),
    [
        ("wafer", "--price 'wafer': give NAME=USD per hour, such as wafer=60,h200=2.5"),
        ({}, "--price: has no price; give NAME=USD per hour, such as wafer=60,h200=2.5"),
        ("wafer=0", "--price wafer=0: give USD per hour, more than 0 and at most 1,000,000"),
        ("wafer=inf", "--price 'wafer=inf': give NAME=USD per hour, such as wafer=60,h200=2.5"),
        ({"wafer": math.nan}, "--price wafer=nan: give USD per hour, more than 0 and at most 1,000,000"),
        ("h200=2,H200=3", "--price: h200 is given twice; keep one"),
    ],
)
def test_prices_that_cannot_be_are_refused(price: str | dict[str, float], message: str) -> None:
    assert refusal(BadInput, read_prices, price) == message


def test_wafer_has_its_own_price_or_that_of_wafer() -> None:
    assert wafer_price("wafer=60", "wse2") == wafer_price({"wse2": 60}, "wse2") == 60
    assert wafer_price(None, "wse2") is None
    assert gpu_price("mine=1.5", "mine") == 1.5


def test_wafers_get_all_prices_but_those_of_the_requests_gpus() -> None:
    price = "wafer=60,h200=2.5,h100=2"
    assert prices_of_gpu(price, "h200") == {"h200": 2.5}
    assert prices_of_gpu(price, "b200") is None
    assert prices_without_gpus(price, ["h200"]) == {"wafer": 60.0, "h100": 2.0}
    assert prices_without_gpus("h200=2.5", ["h200"]) is None
