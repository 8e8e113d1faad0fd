"""Tests of the sections of an estimate: latency, bounds and the gap to them, grades, energy, cost, sensitivity."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.models.helpers import write_config
from wse.backends.fabric.model import Fabric
from wse.errors import DoesNotFit
from wse.hardware.load import load_wafer, provenance
from wse.hardware.number import GRADES
from wse.serving.economics import load_economics
from wse.serving.network import load_network
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.bounds.gap import BoundName, BoundRow, gap_rows
from wse.studies.estimate.grades import SOURCES
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate, estimate_of
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.phases import CyclesBy

KEYS = ["sram", "arithmetic", "hops", "crossing"]


@pytest.fixture(scope="module")
def base_request(tmp_path_factory: pytest.TempPathFactory) -> EstimateRequest:
    """Return a request of a tiny model with four layers on two wafers, with a batch of two."""
    folder = tmp_path_factory.mktemp("model")
    config = write_config(folder, max_position_embeddings=512, num_hidden_layers=4)
    return make_request(
        EstimateRequest,
        model=str(config),
        mesh="8x7",
        wafers=2,
        mapping="pipeline",
        prompt_len=30,
        new_tokens=50,
        batch=2,
    )


@pytest.fixture(scope="module")
def report(base_request: EstimateRequest) -> dict[str, Any]:
    """Return the estimate of `base_request` as a dictionary."""
    return estimate(base_request).to_dict()


def test_parts_of_latencies_add_up(report: dict[str, Any]) -> None:
    latency, decode, prefill = report["latency"], report["decode"], report["prefill"]
    round_trip_s = 5e-4  # between wafer and host
    assert latency["ttft_s"] == pytest.approx(sum(latency["ttft_by"].values()))
    assert latency["ttft_s"] == report["schedule"]["ttft_s"] < report["schedule"]["ttft_sequential_s"]
    assert report["schedule"]["ttft_sequential_s"] == pytest.approx(prefill["s"] + round_trip_s / 2)
    assert prefill["ttft_s"] == latency["ttft_s"]
    assert prefill["tokens_per_s"] == 2 * 30 / latency["ttft_s"]
    assert latency["ttft_by"]["handshake_in_s"] == latency["ttft_by"]["first_token_out_s"] == round_trip_s / 2
    assert 0 <= latency["ttft_by"]["prompt_in_s"] < 1e-6
    assert latency["prompt_in_bytes"] == 2 * 30 * 4
    assert latency["tpot_s"] == pytest.approx(1 / decode["tokens_per_s_per_user"])
    assert latency["tpot_s"] == pytest.approx(sum(latency["tpot_by"].values()))
    assert latency["tpot_by"]["crossing_s"] == pytest.approx(report["crossing"]["s_per_token"])
    assert latency["request_s"] == pytest.approx(latency["ttft_s"] + 49 * latency["tpot_s"])
    assert latency["request_tokens_per_s"] == pytest.approx(50 / latency["request_s"])
    assert round_trip_s < latency["ttft_first_user_s"] < latency["ttft_s"]


def test_bounds_add_up_on_each_level_and_are_lower_bounds(report: dict[str, Any]) -> None:
    bounds = report["bounds"]
    token = bounds["token"]
    assert token["cycles"] == report["decode"]["cycles_per_token"]
    assert token["cycles_by"] == report["decode"]["cycles_by"]
    for level in ("ops", "layers", "stages"):
        rows = bounds[level]
        assert sum(row["cycles"] for row in rows) == pytest.approx(token["cycles"])
        for key in KEYS:
            assert sum(row["bounds"][key] for row in rows) == pytest.approx(token["bounds"][key])
    for row in [token, *bounds["ops"], *bounds["layers"], *bounds["stages"]]:
        assert row["ratio"] == pytest.approx(row["cycles"] / max(row["bounds"].values()))
        assert row["ratio"] >= 1
        assert row["bounds"][row["limit"]] == max(row["bounds"].values())
        assert sum(row["sources"].values()) == pytest.approx(1)
        assert row["source"] in row["sources"]
    assert [row["count"] for row in bounds["layers"] if "dense" in row["layers"]] == [4]
    assert {row["op"]: row["count"] for row in bounds["ops"]}["norm"] == 9
    assert {row["wafer"] for row in bounds["stages"]} == {0, 1}


def test_grade_is_that_of_the_weakest_constant(report: dict[str, Any], base_request: EstimateRequest) -> None:
    grades = report["grades"]
    known = provenance("production") | provenance("wse3") | load_economics(load_wafer("wse3")).sources
    known |= load_network().sources
    for key, found in grades.items():
        name = found["weakest"]
        source = known.get(name) or known[f"{name}.wse3"]
        assert source.grade == found["grade"], key
        assert found["source"] == SOURCES[found["grade"]]
        holder: Any = report
        for part in key.split("."):
            holder = holder[part]
    assert list(GRADES).index(grades["decode.tokens_per_s"]["grade"]) >= list(GRADES).index(
        grades["crossing.s_per_token"]["grade"]
    )


def test_busiest_links_are_those_of_the_link_map(tmp_path: Path) -> None:
    """The expected links come from the map of all links, summed over the same tokens."""
    config = write_config(tmp_path, num_hidden_layers=4)
    placed: dict[str, Any] = {"mesh": "8x7", "wafers": 2, "mapping": "region", "schedule": "baseline"}
    request = make_request(EstimateRequest, model=str(config), **placed, prompt_len=3, new_tokens=9)
    prepared = prepare_estimate(request)
    program = compile_program(prepared)
    links = sum(Fabric(program, prepared.wafer, prepared.software).decode_cost(3 + i).links for i in range(8))
    busiest = estimate_of(prepared, program).to_dict()["fabric"]["busiest_links"]
    assert [link["words_per_token"] for link in busiest] == sorted(
        (link["words_per_token"] for link in busiest), reverse=True
    )
    assert busiest[0]["words_per_token"] == links.max() / 8
    for link in busiest:
        plane = links[link["wafer"], ["north", "east", "south", "west"].index(link["to"])]
        assert plane[link["row"], link["col"]] == plane.max() == link["words_per_token"] * 8


def test_energy_and_cost_follow_from_power_price_and_throughput(report: dict[str, Any]) -> None:
    energy, cost, serving = report["energy"], report["cost"], report["serving"]
    rate = serving["tokens_per_s"]
    assert energy["users"] == cost["users"] == serving["users"] == report["batch"]
    assert energy["joules_per_token"] == pytest.approx(2 * energy["wafer_power_w"] / rate)
    dollars = 2 * cost["wafer_usd_per_hour"] / 3600 / rate * 1e6
    assert cost["usd_per_million_tokens"] == pytest.approx(dollars)
    assert serving["usd_per_million_tokens"] == pytest.approx(dollars)
    below = energy["from_below"]
    assert below["joules_per_token"] == pytest.approx(sum(below["joules_by"].values()))
    assert min(below["joules_by"].values()) > 0
    assert below["joules_per_token"] < energy["joules_per_token"]
    assert report["grades"]["energy.joules_per_token"]["grade"] == "I"


def test_power_is_read_from_an_economics_file(base_request: EstimateRequest, tmp_path: Path) -> None:
    file = tmp_path / "power.toml"
    file.write_text("wafer_power_w = 11_500\n")
    found = estimate(
        replace_options(base_request, batch=1, new_tokens=2, schedule="baseline", economics=str(file))
    ).to_dict()
    assert found["energy"]["joules_per_token"] == pytest.approx(2 * 11_500 / found["serving"]["tokens_per_s"])
    assert found["energy"]["grade"] == "U"


@pytest.mark.slow
def test_sensitivity_equals_the_estimate_of_a_changed_wafer(base_request: EstimateRequest, tmp_path: Path) -> None:
    """The baseline schedule is used because the other wafers then need no search for rewrites."""
    file = tmp_path / "mine.toml"
    file.write_text('base = "wse3"\nhop_cycles = 3\n')
    report = estimate(replace_options(base_request, schedule="baseline", sensitivity=True)).to_dict()
    slower, roomier, linked, research = report["sensitivity"]
    found = estimate(replace_options(base_request, schedule="baseline", wafer=str(file))).to_dict()
    assert slower["tokens_per_s_per_user"] == found["decode"]["tokens_per_s_per_user"]
    assert slower["factors"]["tokens_per_s_per_user"] < 1
    assert roomier["factors"]["kv_capacity_tokens"] > 1.05
    assert linked["factors"]["tokens_per_s_per_user"] >= 1
    assert all(row["wafers"] == 2 for row in (slower, roomier, linked))
    assert research["wafers"] == 1
    code = report["sram"]["code"]
    assert code["research_bytes_per_pe"] == 26_232 > code["bytes_per_pe"] == 1_408


def test_model_that_does_not_fit_is_timed_with_capacity_report(base_request: EstimateRequest) -> None:
    too_small = replace_options(base_request, mesh="1x2", wafers=1, mapping="region", context=512, schedule="baseline")
    with pytest.raises(DoesNotFit, match="too many: code"):
        estimate(too_small)
    found = estimate(replace(too_small, capacity="report")).to_dict()
    assert found["sram"]["fits"] is False
    assert found["sram"]["bytes_per_pe"]["free"] < 0
    assert found["sram"]["users"][-1]["users"] == 0 or found["sram"]["kv_capacity_tokens"] < 512
    assert found["decode"]["tokens_per_s"] > 0


def row(by: CyclesBy, bounds: dict[BoundName, float], op: str | None = None) -> BoundRow:
    """Return a row with these cycles by cause and these lower bounds in cycles."""
    limit = max(bounds, key=lambda name: bounds[name])
    cycles = sum(by.values())
    ratio = cycles / bounds[limit] if bounds[limit] else None
    return BoundRow(
        op=op, cycles=cycles, cycles_by=by, bounds=bounds, source="measured", sources={}, ratio=ratio,
        limit=limit if ratio else None,
    )  # fmt: skip


def bounds(**cycles: float) -> dict[BoundName, float]:
    """Return lower bounds in cycles; those not given are 0."""
    return {"sram": 0, "arithmetic": 0, "hops": 0, "crossing": 0} | cycles


def by(**cycles: float) -> CyclesBy:
    """Return cycles by cause; those not given are 0."""
    return {"hops": 0, "relays": 0, "compute": 0, "launch": 0, "crossing": 0, "host": 0} | cycles


QKV = row(by(hops=100, compute=300, launch=40), bounds(hops=80, arithmetic=250), "qkv")
DOWN = row(by(hops=400, compute=60, launch=60), bounds(hops=350, arithmetic=20), "down")


@pytest.mark.parametrize(
    ("limits", "largest_cause", "gap_cycles"),
    [
        ({"hops": 430.0, "arithmetic": 270.0}, "compute", {"compute": 360, "launch": 100, "hops": 70}),
        ({"hops": 260.0, "arithmetic": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
        ({"hops": 200.0, "sram": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
    ],
)
def test_gap_subtracts_the_bound_from_its_own_cause(
    limits: dict[str, float], largest_cause: str, gap_cycles: dict[str, float]
) -> None:
    token = row(by(hops=500, compute=360, launch=100), bounds(**limits))
    assert token.limit is not None
    gap = gap_rows(token, (QKV, DOWN))
    assert {line.cause: line.cycles for line in gap} == gap_cycles
    assert gap[0].cause == largest_cause
    assert [line.cycles for line in gap] == sorted((line.cycles for line in gap), reverse=True)
    bound = token.bounds[token.limit]
    assert sum(line.cycles for line in gap) == token.cycles - bound
    assert sum(line.share for line in gap) == pytest.approx(1)
    for line in gap:
        assert line.ratio_without == pytest.approx((token.cycles - line.cycles) / bound)


def test_gap_lists_operations_by_their_cycles_beyond_the_bound() -> None:
    """Hops exceed the bound by 70 cycles: qkv by 20 (100 - 80), down by 50 (400 - 350). Launches have no bound."""
    gap = {line.cause: line for line in gap_rows(row(by(hops=500, launch=100), bounds(hops=430)), (QKV, DOWN))}
    assert gap["hops"].ops == {"down": pytest.approx(50 / 70), "qkv": pytest.approx(20 / 70)}
    assert list(gap["launch"].ops.items()) == [("down", 0.6), ("qkv", 0.4)]


def test_token_without_a_bound_has_no_gap() -> None:
    assert gap_rows(row(by(launch=10), bounds()), ()) == ()
