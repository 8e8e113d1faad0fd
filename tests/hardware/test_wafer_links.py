"""Tests of links between wafers, which are given by name or file and replace the link numbers of a wafer."""

from __future__ import annotations

from pathlib import Path

import pytest

import wse
from wse.errors import BadWafer, UnknownName
from wse.hardware.load import load_wafer
from wse.hardware.wafer_links import link_numbers
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.options.settings import WAFER, sourced_numbers, with_settings


def test_vendor_is_the_link_of_every_wafer() -> None:
    assert link_numbers("vendor") == {}


def test_sdk_host_is_slower_than_a_vendor_link() -> None:
    own, link = load_wafer("wse2"), link_numbers("sdk-host")
    assert link["wafer_link_latency_s"].value > 10 * own.wafer_link_latency_s
    assert link["wafer_link_bytes_per_s"].value < own.wafer_link_bytes_per_s / 10


def test_setting_takes_precedence_over_link() -> None:
    settings = ("wafer.wafer_link_latency_s=1ms",)
    request = with_settings(make_request(EstimateRequest, model="story", link="sdk-host", settings=settings))
    wafer = load_wafer(request.machine.wafer, request.machine.wafer_values)
    assert wafer.wafer_link_latency_s == 1e-3
    bandwidth = link_numbers("sdk-host")["wafer_link_bytes_per_s"]
    assert wafer.wafer_link_bytes_per_s == bandwidth.value
    assert with_settings(request) == request
    numbers = sourced_numbers(request.machine)[WAFER]
    assert numbers["wafer_link_bytes_per_s"] == bandwidth
    assert (numbers["wafer_link_latency_s"].grade, numbers["wafer_link_latency_s"].range) == ("U", None)


def test_link_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text("wafer_link_latency_s = 1e-3\nwafer_link_bytes_per_s = 150e9\n", encoding="utf-8")
    request = with_settings(make_request(EstimateRequest, model="story", link=file))
    wafer = load_wafer(request.machine.wafer, request.machine.wafer_values)
    assert (wafer.wafer_link_latency_s, wafer.wafer_link_bytes_per_s) == (1e-3, 150e9)
    assert {number.range for number in link_numbers(file).values()} == {None}


def test_constants_of_a_link_are_sampled_within_their_ranges() -> None:
    options = {"mesh": "12x12", "wafers": 2, "prompt_len": 8, "new_tokens": 8, "schedule": "baseline"}
    contributions = wse.estimate("story", link="sdk-host", uncertainty=True, **options).uncertainty.contributions
    bundled = {row.name: row for row in contributions}
    latency = bundled["wafer.wafer_link_latency_s"]
    assert (latency.low, latency.value, latency.high, latency.grade) == (140.5e-6, 165.5e-6, 182e-6, "D")
    extra_s = latency.tpot_s_at_high - latency.tpot_s_at_low
    assert extra_s == pytest.approx(2 * (182e-6 - 140.5e-6), rel=0.01)  # two crossings: to the second wafer and back
    assert bundled["wafer.wafer_link_bytes_per_s"].high == 1.08e9


def test_unknown_link_is_refused() -> None:
    with pytest.raises(UnknownName) as error:
        link_numbers("sdk-hots")
    assert "sdk-host" in str(error.value)
    assert "vendor" in str(error.value)


def test_file_without_a_latency_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "link.toml"
    file.write_text("wafer_link_bytes_per_s = 1e9\n", encoding="utf-8")
    with pytest.raises(BadWafer, match="has no wafer_link_latency_s"):
        link_numbers(file)
