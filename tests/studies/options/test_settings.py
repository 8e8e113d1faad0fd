"""Settings: numbers of the machine instead of its files', on every command that takes a wafer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wse
from wse.hardware.load import load_software, load_wafer
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.options.settings import with_settings

PLAIN = {"mapping": "region", "schedule": "baseline"}
QUICK = make_request(EstimateRequest, model="story", wafer="wse2", software="academic", prompt_len=4, new_tokens=4)


def test_values_and_factors_take_the_place_of_the_files_numbers() -> None:
    settings = ("wafer.clock_hz=x2", "wafer.sram_bytes_per_pe=96KiB", "software.relay_cycles=x0.5")
    prepared = prepare_estimate(replace_options(QUICK, settings=settings))
    plain, costs = load_wafer("wse2"), load_software("academic", "wse2")
    assert prepared.whole == replace(plain, clock_hz=2 * plain.clock_hz, sram_bytes_per_pe=96 * 1024)
    assert prepared.software == replace(costs, relay_cycles=costs.relay_cycles // 2)
    assert isinstance(prepared.whole.sram_bytes_per_pe, int)


def test_a_factor_is_of_the_wafer_that_was_asked_for() -> None:
    of_wafer = {
        name: with_settings(replace_options(QUICK, wafer=name, settings=("wafer.clock_hz=x2",)))
        for name in ("wse2", "wse3")
    }
    clocks = {name: dict(request.machine.wafer_values)["clock_hz"] for name, request in of_wafer.items()}
    assert clocks == {name: 2 * load_wafer(name).clock_hz for name in clocks}
    assert clocks["wse2"] != clocks["wse3"]


def test_the_estimate_follows_and_says_what_was_set() -> None:
    options = {"mesh": "24x24", "wafer": "wse2", "prompt_len": 8, "new_tokens": 4, **PLAIN}
    plain = wse.estimate("story", **options)
    fast = wse.estimate("story", **options, set="wafer.clock_hz=x2")
    assert fast.decode.cycles_per_token == plain.decode.cycles_per_token
    assert fast.decode.tokens_per_s_per_user == pytest.approx(2 * plain.decode.tokens_per_s_per_user)
    assert fast.wafer.replaced == {"wafer.clock_hz": 2 * plain.wafer.clock_hz}
    assert fast.inputs["wafer.clock_hz"] == fast.wafer.clock_hz
    assert fast.grades["decode.tokens_per_s_per_user"].grade == "U"
    assert plain.wafer.replaced is None
