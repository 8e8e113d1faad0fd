"""Tests of prices, power, energy and network numbers: bundled values, files of users, and the costs that follow."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.helpers import check_bundled, refusal, write_toml
from wse.errors import BadInput, BadWafer, UnknownName
from wse.hardware.load import known_wafers, load_wafer
from wse.hardware.number import numeric_fields
from wse.serving.cost import Activity, activity_energies, activity_energy, activity_joules, system_cost, system_energy
from wse.serving.economics import ACTIVITY_KEYS, load_economics, load_gpu_economics
from wse.serving.gpus.load import known_gpus, load_gpu
from wse.serving.network import Network, load_network
from wse.serving.prices import (
    own_price,
    prices_of_gpu,
    prices_without_gpus,
    read_prices,
    unused_prices_note,
)
from wse.studies.catalogue import machine
from wse.studies.estimate.timing.latency import user_latency_result
from wse.studies.gpu_catalogue import gpus

WSE3 = load_wafer("wse3")


def test_catalogues_have_the_prices_of_estimates() -> None:
    h200 = load_gpu_economics(load_gpu("h200"))
    assert h200 is not None
    listed = gpus().gpus["h200"]["gpu_usd_per_hour"]
    assert (listed.value, listed.range) == (h200.usd_per_hour.value, h200.usd_per_hour.range)
    assert machine("wse3").numbers["wafer_usd_per_hour"].value == load_economics(WSE3).usd_per_hour.value


MACHINES = [*known_wafers(), *known_gpus()]
wafers = st.integers(1, 1000)
rates = st.floats(1e-3, 1e9)


@pytest.mark.parametrize("name", MACHINES)
def test_every_bundled_number_has_a_grade_a_source_and_a_range(name: str) -> None:
    is_wafer = name in known_wafers()
    economics = load_economics(load_wafer(name)) if is_wafer else load_gpu_economics(load_gpu(name))
    assert {*economics.sources} - {*ACTIVITY_KEYS} == {f"{economics.kind}_power_w", f"{economics.kind}_usd_per_hour"}
    assert ({*ACTIVITY_KEYS} <= {*economics.sources}) == is_wafer
    network = load_network().sources
    assert network.keys() == numeric_fields(Network).keys()
    check_bundled(economics.sources | network)
    for number in (economics.sources | network).values():
        assert number.range is not None
        assert number.low <= number.value <= number.high
    assert re.search(r"(March|May) 2026", economics.usd_per_hour.source), "the date of a price"


def test_numbers_of_gpus_are_read_from_a_file(tmp_path: Path) -> None:
    file = write_toml(tmp_path, "gpu_usd_per_hour = { h100 = 2 }\nwafer_power_w = 20_000\n")
    economics = load_gpu_economics(load_gpu("h100"), file)
    assert economics.usd_per_hour.value == 2
    assert system_cost(8, 1000, economics).value == pytest.approx(8 * 2 / 3.6)
    assert system_energy(8, 1000, economics).value == pytest.approx(8 * 450 / 1000)
    assert load_economics(WSE3, file).power_w.value == 20_000
    other = load_gpu_economics(load_gpu("b200"), file)
    assert other.usd_per_hour.value == 6.03
    with pytest.raises(UnknownName, match="did you mean 'h100'"):
        load_gpu_economics(load_gpu("h100"), write_toml(tmp_path, "gpu_power_w = { h10 = 2, b200 = 3 }"))
    assert load_gpu_economics(replace(load_gpu("h100"), name="mine")) is None


def test_wafer_without_own_numbers_uses_those_of_its_generation(tmp_path: Path) -> None:
    mine = load_wafer(write_toml(tmp_path, 'base = "wse2"\n'))
    assert load_economics(mine) == load_economics(load_wafer("wse2"))
    cs4, wse3 = load_economics(load_wafer("cs4")), load_economics(WSE3)
    assert cs4.sources["hop_joules_per_wavelet"] == wse3.sources["hop_joules_per_wavelet"]
    assert cs4.sources["wafer_power_w"].grade == "I"
    assert "not announced" in cs4.sources["wafer_power_w"].source


def test_numbers_in_a_file_replace_the_bundled_ones(tmp_path: Path) -> None:
    path = write_toml(
        tmp_path,
        "wafer_power_w = { value = 17_000, grade = 'M', source = 'our meter', range = [16_000, 18e3] }\n"
        "wafer_usd_per_hour = { wse2 = 30, cs4 = 80.5 }\n",
    )
    wse3, wse2, cs4 = (load_economics(load_wafer(name), path) for name in ("wse3", "wse2", "cs4"))
    assert wse3.power_w.value == wse2.power_w.value == 17_000
    power = wse3.power_w
    assert (power.unit, power.grade, power.source, power.range) == ("W", "M", "our meter", (16_000, 18_000))
    assert (wse2.usd_per_hour.value, cs4.usd_per_hour.value) == (30, 80.5)
    assert (wse2.usd_per_hour.grade, wse2.usd_per_hour.range) == ("U", None)
    assert wse3.usd_per_hour == load_economics(WSE3).usd_per_hour
    mine = replace(WSE3, name="mine")
    own = load_economics(mine, write_toml(tmp_path, "wafer_power_w = { mine = 5, wse3 = 6 }\n"))
    assert own.power_w.value == 5


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        (
            "wafer_usd_per_hour = { wse3 = inf }\n",
            "wafer_usd_per_hour.wse3 = inf: give a number from 0 to 1,000,000 (USD/h)",
        ),
        (
            "wafer_power_w = { value = 9, range = [10, 20] }\n",
            "wafer_power_w: the range from 10 to 20 does not contain the value 9, or is not within 1 to 10,000,000; "
            "give two numbers around it",
        ),
        ("wall_ratio = { value = 2, range = [1] }\n", "wall_ratio = range [1]: List should have at least 2 items"),
    ],
)
def test_bad_numbers_are_refused(tmp_path: Path, text: str, tail: str) -> None:
    path = write_toml(tmp_path, text)
    assert refusal(BadWafer, load_economics, WSE3, path).startswith(f"{path}: {tail}")


@given(wafers, rates)
def test_ranges_scale_with_the_value_and_keep_grade_and_source(count: int, tokens_per_s: float) -> None:
    economics = load_economics(WSE3)
    for per_token, key in (
        (system_energy(count, tokens_per_s, economics), "wafer_power_w"),
        (system_cost(count, tokens_per_s, economics), "wafer_usd_per_hour"),
    ):
        number = economics.sources[key]
        assert per_token.range is not None
        assert number.range is not None
        assert per_token.range == pytest.approx([per_token.value * end / number.value for end in number.range])
        assert per_token.grade == number.grade
        assert number.source in per_token.source


@given(wafers, rates, st.floats(0.01, 1e4))
def test_cost_is_proportional_to_a_given_price_which_has_no_range(
    count: int, tokens_per_s: float, usd_per_hour: float
) -> None:
    for own, bundled in (
        (load_economics(WSE3, usd_per_hour=usd_per_hour), load_economics(WSE3)),
        (load_gpu_economics(load_gpu("h200"), usd_per_hour=usd_per_hour), load_gpu_economics(load_gpu("h200"))),
    ):
        cost, before = system_cost(count, tokens_per_s, own), system_cost(count, tokens_per_s, bundled)
        assert cost.range == (cost.value, cost.value)
        assert cost.value / before.value == pytest.approx(usd_per_hour / bundled.usd_per_hour.value)
        assert (cost.grade, own.usd_per_hour.source) == ("U", "given")
        assert own.power_w == bundled.power_w


COUNTS = ("macs_fp16", "macs_fp16_fp32", "macs_fp32", "sram_read_bytes", "sram_written_bytes")
COUNTS += ("wavelet_hops", "ramp_wavelets", "vector_operations", "pe_s")
activities = st.builds(Activity, **{name: st.floats(0, 1e15) for name in COUNTS})


@given(activities, st.floats(0, 1e3))
def test_energy_of_activity_is_linear_and_adds_up(activity: Activity, factor: float) -> None:
    economics = load_economics(WSE3)
    more = Activity(**{name: factor * getattr(activity, name) for name in COUNTS})
    one, other = (activity_joules(each, activity_energies(economics)) for each in (activity, more))
    assert other == pytest.approx({use: factor * joules for use, joules in one.items()})
    energy = activity_energy(activity, economics)
    assert energy.value == pytest.approx(sum(one.values()))
    assert energy.range[0] <= energy.value <= energy.range[1]
    assert energy.grade == "I"


@pytest.mark.parametrize(
    ("count", "use", "pj"),
    [
        ("macs_fp16", "arithmetic", 0.40),
        ("macs_fp16_fp32", "arithmetic", 0.58),
        ("macs_fp32", "arithmetic", 1.35),
        ("sram_read_bytes", "sram", 8 * 0.08),
        ("sram_written_bytes", "sram", 8 * 0.09),
        ("wavelet_hops", "fabric", 2.0),
        ("ramp_wavelets", "fabric", 0.8),
        ("vector_operations", "issue", 2.4),
        ("pe_s", "idle", 0.008 * 1e12),
    ],
)
def test_each_count_has_its_energy(count: str, use: str, pj: float) -> None:
    by_use = activity_joules(Activity(**{count: 1e12}), activity_energies(load_economics(WSE3)))
    assert by_use.pop(use) == pytest.approx(1.15 * pj)
    assert set(by_use.values()) == {0.0}


def test_busy_pe_uses_less_than_the_published_power_of_a_core() -> None:
    """A WSE-2 PE uses at most 30 mW at 1.1 GHz: 27 pJ per cycle with SRAM at full width and four multiply-adds."""
    wse2 = activity_energies(load_economics(load_wafer("wse2"))) | {"wall_ratio": 1.0}
    cycle = Activity(macs_fp16=4, sram_read_bytes=16, sram_written_bytes=8, wavelet_hops=1, vector_operations=0.1)
    assert 20e-12 < sum(activity_joules(cycle, wse2).values()) < 30e-3 / 1.1e9


def test_text_and_a_mapping_give_the_same_prices() -> None:
    expected = {"wafer": 60.0, "h200": 2.5}
    assert read_prices("wafer=60, H200 = 2.5") == read_prices({"wafer": 60, "h200": 2.5}) == expected
    assert read_prices(None) == {}
    assert read_prices("wafer=1.5k") == {"wafer": 1_500.0}


@pytest.mark.parametrize(
    ("price", "message"),
    [
        ("wafer", "--price 'wafer': give NAME=NUMBER, in USD per hour, such as wafer=60,h200=2.5"),
        ({}, "--price: has no price; give NAME=NUMBER, in USD per hour, such as wafer=60,h200=2.5"),
        ("wafer=0", "--price wafer=0: give USD per hour, more than 0 and at most 1,000,000"),
        ("wafer=inf", "--price 'wafer=inf': give NAME=NUMBER, in USD per hour, such as wafer=60,h200=2.5"),
        ({"wafer": math.nan}, "--price wafer=nan: give USD per hour, more than 0 and at most 1,000,000"),
        ("h200=2,H200=3", "--price: h200 is given twice; keep one"),
    ],
)
def test_bad_prices_are_refused(price: str | dict[str, float], message: str) -> None:
    assert refusal(BadInput, read_prices, price) == message


def test_wafer_has_its_own_price_or_that_of_wafer() -> None:
    assert own_price("wafer=60", ("wafer", "wse2")) == own_price({"wse2": 60}, ("wafer", "wse2")) == 60
    assert own_price(None, ("wafer", "wse2")) is None
    assert own_price("mine=1.5", ("mine",)) == 1.5


def test_prices_of_other_machines_are_named_in_a_note() -> None:
    assert unused_prices_note("wafer=60,h200=2.5,h100=2", ("wafer", "wse3")) == (
        "--price of h200 and h100 has no effect"
    )
    assert unused_prices_note("wafer=60", ("wafer", "wse3")) is None
    assert unused_prices_note(None, ("h200",)) is None


def test_wafers_get_all_prices_except_those_of_the_compared_gpus() -> None:
    price = "wafer=60,h200=2.5,h100=2"
    assert prices_of_gpu(price, "h200") == {"h200": 2.5}
    assert prices_of_gpu(price, "b200") is None
    assert prices_without_gpus(price, ["h200"]) == {"wafer": 60.0, "h100": 2.0}
    assert prices_without_gpus("h200=2.5", ["h200"]) is None


def test_ttft_of_a_user_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    numbers = (
        "network_round_trip_s = { value = 0.1, range = [0.05, 0.2] }\nconnection_round_trips = 2\nservice_s = 0.01"
    )
    network = load_network(write_toml(tmp_path, numbers))
    user = user_latency_result(network, ttft_s=0.5, request_s=2.0)
    by = user.ttft_by
    assert by.connection_s == pytest.approx(0.2)
    assert user.ttft_s == pytest.approx(0.2 + 0.1 + 0.01 + 0.5)
    assert user.ttft_s == pytest.approx(by.connection_s + by.network_s + by.service_s + by.machine_s)
    assert user.ttft_open_s == pytest.approx(0.61)
    assert user.ttft_range_s == (pytest.approx(3 * 0.05 + 0.01 + 0.5), pytest.approx(3 * 0.2 + 0.01 + 0.5))
    assert user.request_s == pytest.approx(2.31)
    assert user.outside_share == pytest.approx(0.31 / 2.31)
    assert user.grade == "U"
    assert network.weakest == ("U", "network_round_trip_s")
