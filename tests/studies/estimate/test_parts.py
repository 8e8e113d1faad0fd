"""Parts of an estimate: users, waiting, bounds, the gap to the bound, grades, another wafer."""

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
from wse.studies.estimate.bounds.bound_row import BoundName, BoundRow
from wse.studies.estimate.bounds.gap import gap_rows
from wse.studies.estimate.grades import SOURCES
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate, estimate_of
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.phases import CyclesBy

KEYS = ["sram", "arithmetic", "hops", "crossing"]


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> EstimateRequest:
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
def report(request_: EstimateRequest) -> dict[str, Any]:
    return estimate(request_).to_dict()


def test_what_a_user_waits_for_adds_up(report: dict[str, Any]) -> None:
    latency, decode, prefill = report["latency"], report["decode"], report["prefill"]
    wafer_trip = 5e-4
    assert latency["ttft_s"] == pytest.approx(sum(latency["ttft_by"].values()))
    assert latency["ttft_s"] == report["schedule"]["ttft_s"] < report["schedule"]["ttft_sequential_s"]
    assert report["schedule"]["ttft_sequential_s"] == pytest.approx(prefill["s"] + wafer_trip / 2)
    assert prefill["ttft_s"] == latency["ttft_s"]
    assert prefill["tokens_per_s"] == 2 * 30 / latency["ttft_s"]
    assert latency["ttft_by"]["handshake_in_s"] == latency["ttft_by"]["first_token_out_s"] == wafer_trip / 2
    assert 0 <= latency["ttft_by"]["prompt_in_s"] < 1e-6
    assert latency["prompt_in_bytes"] == 2 * 30 * 4
    assert latency["tpot_s"] == pytest.approx(1 / decode["tokens_per_s_per_user"])
    assert latency["tpot_s"] == pytest.approx(sum(latency["tpot_by"].values()))
    assert latency["tpot_by"]["crossing_s"] == pytest.approx(report["crossing"]["s_per_token"])
    assert latency["request_s"] == pytest.approx(latency["ttft_s"] + 49 * latency["tpot_s"])
    assert latency["request_tokens_per_s"] == pytest.approx(50 / latency["request_s"])
    assert wafer_trip < latency["ttft_first_user_s"] < latency["ttft_s"]


def test_levels_add_up_to_the_token_and_no_row_beats_its_bounds(report: dict[str, Any]) -> None:
    bounds = report["bounds"]
    whole = bounds["token"]
    assert whole["cycles"] == report["decode"]["cycles_per_token"]
    assert whole["cycles_by"] == report["decode"]["cycles_by"]
    for level in ("ops", "layers", "stages"):
        rows = bounds[level]
        assert sum(row["cycles"] for row in rows) == pytest.approx(whole["cycles"])
        for key in KEYS:
            assert sum(row["bounds"][key] for row in rows) == pytest.approx(whole["bounds"][key])
    for row in [whole, *bounds["ops"], *bounds["layers"], *bounds["stages"]]:
        assert row["ratio"] == pytest.approx(row["cycles"] / max(row["bounds"].values()))
        assert row["ratio"] >= 1
        assert row["bounds"][row["limit"]] == max(row["bounds"].values())
        assert sum(row["sources"].values()) == pytest.approx(1)
        assert row["source"] in row["sources"]
    assert [row["count"] for row in bounds["layers"] if "dense" in row["layers"]] == [4]
    assert {row["op"]: row["count"] for row in bounds["ops"]}["norm"] == 9
    assert {row["wafer"] for row in bounds["stages"]} == {0, 1}


def test_grades_are_those_of_the_weakest_constant(report: dict[str, Any], request_: EstimateRequest) -> None:
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


def test_the_busiest_links_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    """Against the map of all links of the same tokens."""
    config = write_config(tmp_path, num_hidden_layers=4)
    placed: dict[str, Any] = {"mesh": "8x7", "wafers": 2, "mapping": "region", "schedule": "baseline"}
    request = make_request(EstimateRequest, model=str(config), **placed, prompt_len=3, new_tokens=9)
    prepared = prepare_estimate(request)
    program = compile_program(prepared)
    links = sum(Fabric(program, prepared.wafer, prepared.software).decode_cost(3 + i).links for i in range(8))
    found = estimate_of(prepared, program).to_dict()["fabric"]["busiest_links"]
    assert [link["words_per_token"] for link in found] == sorted(
        (link["words_per_token"] for link in found), reverse=True
    )
    assert found[0]["words_per_token"] == links.max() / 8
    for link in found:
        plane = links[link["wafer"], ["north", "east", "south", "west"].index(link["to"])]
        assert plane[link["row"], link["col"]] == plane.max() == link["words_per_token"] * 8


def test_joules_and_dollars_follow_from_power_price_and_rate(report: dict[str, Any]) -> None:
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
    assert report["grades"]["energy.joules_per_token"]["grade"] == "I"


def test_other_assumptions_of_power_are_those_of_the_file(request_: EstimateRequest, tmp_path: Path) -> None:
    file = tmp_path / "power.toml"
    file.write_text("wafer_power_w = 11_500\n")
    found = estimate(
        replace_options(request_, batch=1, new_tokens=2, schedule="baseline", economics=str(file))
    ).to_dict()
    assert found["energy"]["joules_per_token"] == pytest.approx(2 * 11_500 / found["serving"]["tokens_per_s"])
    assert found["energy"]["grade"] == "U"


@pytest.mark.slow
def test_another_wafer_has_the_same_request(request_: EstimateRequest, tmp_path: Path) -> None:
    """By the baseline schedule, for which nothing is searched on other wafers."""
    file = tmp_path / "mine.toml"
    file.write_text('base = "wse3"\nhop_cycles = 3\n')
    report = estimate(replace_options(request_, schedule="baseline", sensitivity=True)).to_dict()
    slower, roomier, linked, research = report["sensitivity"]
    found = estimate(replace_options(request_, schedule="baseline", wafer=str(file))).to_dict()
    assert slower["tokens_per_s_per_user"] == found["decode"]["tokens_per_s_per_user"]
    assert slower["factors"]["tokens_per_s_per_user"] < 1
    assert roomier["factors"]["kv_capacity_tokens"] > 1.05
    assert linked["factors"]["tokens_per_s_per_user"] >= 1
    assert all(row["wafers"] == 2 for row in (slower, roomier, linked))
    assert research["wafers"] == 1
    code = report["sram"]["code"]
    assert code["research_bytes_per_pe"] == 26_232 > code["bytes_per_pe"] == 1_408


def test_a_model_that_does_not_fit_is_timed_when_asked_to(request_: EstimateRequest) -> None:
    crammed = replace_options(request_, mesh="1x2", wafers=1, mapping="region", context=512, schedule="baseline")
    with pytest.raises(DoesNotFit, match="too many: code"):
        estimate(crammed)
    found = estimate(replace(crammed, capacity="report")).to_dict()
    assert found["sram"]["fits"] is False
    assert found["sram"]["bytes_per_pe"]["free"] < 0
    assert found["sram"]["users"][-1]["users"] == 0 or found["sram"]["kv_capacity_tokens"] < 512
    assert found["decode"]["tokens_per_s"] > 0


def row(by: CyclesBy, bounds: dict[BoundName, float], op: str | None = None) -> BoundRow:
    limit = max(bounds, key=lambda name: bounds[name])
    cycles = sum(by.values())
    ratio = cycles / bounds[limit] if bounds[limit] else None
    return BoundRow(
        op=op, cycles=cycles, cycles_by=by, bounds=bounds, source="measured", sources={}, ratio=ratio,
        limit=limit if ratio else None,
    )  # fmt: skip


def bounds(**of: float) -> dict[BoundName, float]:
    return {"sram": 0, "arithmetic": 0, "hops": 0, "crossing": 0} | of


def by(**of: float) -> CyclesBy:
    return {"hops": 0, "relays": 0, "compute": 0, "launch": 0, "crossing": 0, "host": 0} | of


QKV = row(by(hops=100, compute=300, launch=40), bounds(hops=80, arithmetic=250), "qkv")
DOWN = row(by(hops=400, compute=60, launch=60), bounds(hops=350, arithmetic=20), "down")


@pytest.mark.parametrize(
    ("limits", "first", "beyond"),
    [
        ({"hops": 430.0, "arithmetic": 270.0}, "compute", {"compute": 360, "launch": 100, "hops": 70}),
        ({"hops": 260.0, "arithmetic": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
        ({"hops": 200.0, "sram": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
    ],
)
def test_the_bound_is_taken_from_its_own_cause(limits: dict[str, float], first: str, beyond: dict[str, float]) -> None:
    token = row(by(hops=500, compute=360, launch=100), bounds(**limits))
    assert token.limit is not None
    gap = gap_rows(token, (QKV, DOWN))
    assert {line.cause: line.cycles for line in gap} == beyond
    assert gap[0].cause == first
    assert [line.cycles for line in gap] == sorted((line.cycles for line in gap), reverse=True)
    bound = token.bounds[token.limit]
    assert sum(line.cycles for line in gap) == token.cycles - bound
    assert sum(line.share for line in gap) == pytest.approx(1)
    for line in gap:
        assert line.ratio_without == pytest.approx((token.cycles - line.cycles) / bound)


def test_ops_are_named_by_their_cycles_beyond_the_bound() -> None:
    """Hops: qkv has 20 of 70 beyond what it has of the bound, down 50; launches have no bound."""
    gap = {line.cause: line for line in gap_rows(row(by(hops=500, launch=100), bounds(hops=430)), (QKV, DOWN))}
    assert gap["hops"].ops == {"down": pytest.approx(50 / 70), "qkv": pytest.approx(20 / 70)}
    assert list(gap["launch"].ops.items()) == [("down", 0.6), ("qkv", 0.4)]


def test_a_token_without_a_bound_has_no_gap() -> None:
    assert gap_rows(row(by(launch=10), bounds()), ()) == ()
