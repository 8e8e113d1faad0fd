"""Tests of the rows of a comparison: they equal an estimate of the same request, and their order and marks follow."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from few_samples import few_samples
from one_process import ONE_PROCESS

from wse.compiler.strategies import strategies
from wse.errors import BadInput, DoesNotFit
from wse.hardware.load import load_wafer
from wse.reports.progress import ignore
from wse.reports.result import Report
from wse.serving.economics import load_economics
from wse.serving.operating_point import operating_point
from wse.studies.compare.grid import combination
from wse.studies.compare.grid.rows import row_of
from wse.studies.compare.grid.study import compare
from wse.studies.compare.request import FASTEST, SLOWEST, CompareRequest, WaferLink
from wse.studies.compare.tables import USERS
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import TimedEstimate, estimate, timed_estimate
from wse.studies.options.option import replace_options
from wse.studies.workers.engine_pool import Pool
from wse.studies.workers.pool import KilledItem
from wse.tracing.query.two_traces.comparison_row import ALL_USERS, COLUMNS, ONE_USER


@pytest.fixture(scope="module")
def compared(base: EstimateRequest) -> Report:
    """Return the report of a comparison of two mappings on 1, 2 and 4 wafers."""
    return compared_report(CompareRequest(base=base, wafers=(1, 2, 4), candidates=("region", "pipeline")))


def compared_report(request: CompareRequest) -> Report:
    """Return the report of a comparison that is computed in this process."""
    with few_samples():
        return compare(request, ignore, ONE_PROCESS).to_dict()


def test_link_is_timed_without_compiling_again(base: EstimateRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    compilations: list[str] = []

    def compile_and_record(prepared: Any, breadth: Any) -> Any:
        """Compile as usual and record the mapping."""
        compilations.append(prepared.options.mapping)
        return compile_fastest(prepared, breadth)

    compile_fastest = combination.compile_fastest
    monkeypatch.setattr(combination, "compile_fastest", compile_and_record)
    request = CompareRequest(
        base=base, wafers=(2,), candidates=("region",), link_gb_per_s=(8, 150), link_latency_us=(0.5, 5, 20)
    )
    rows = compared_report(request)["rows"]
    assert len(rows) == 6
    assert compilations == ["region"]


@pytest.mark.parametrize(
    ("mapping", "schedule", "latency_us"), [("region", "optimized", 20.0), ("tensor", "baseline", 0.001)]
)
def test_row_of_another_link_equals_an_estimate_of_a_wafer_with_that_link(
    base: EstimateRequest, tmp_path: Path, mapping: str, schedule: str, latency_us: float
) -> None:
    """With ``tensor``, the program depends on the latency of the link."""
    file = tmp_path / "link.toml"
    file.write_text(f'base = "wse3"\nwafer_link_bytes_per_s = 8e9\nwafer_link_latency_s = {latency_us / 1e6}\n')
    scheduled = replace_options(base, schedule=schedule)
    request = CompareRequest(
        base=scheduled, wafers=(2,), candidates=(mapping,), link_gb_per_s=(8.0,), link_latency_us=(latency_us,)
    )
    row, *_ = compared_report(request)["rows"]
    own = estimate(replace_options(scheduled, wafer=str(file), wafers=2, mapping=mapping)).to_dict()
    assert row["tokens_per_s_per_user"] == pytest.approx(own["decode"]["tokens_per_s_per_user"], rel=1e-12)
    assert row["prefill_tokens_per_s"] == pytest.approx(own["prefill"]["tokens_per_s"], rel=1e-12)
    assert (row["tpot_s"], row["ttft_s"]) == pytest.approx((own["latency"]["tpot_s"], own["latency"]["ttft_s"]))
    alone, by = own["serving"]["points"][0], own["decode"]["cycles_by"]
    assert row["usd_per_million_tokens_of_one_user"] == pytest.approx(alone["usd_per_million_tokens"])
    assert row["cycles_by"] == pytest.approx(by)
    assert row["crossing_fraction"] == pytest.approx(by["crossing"] / sum(by.values()))
    assert row["wafer_link_bytes_per_token"] == own["crossing"]["bytes_per_token"]
    assert row["mesh_hops_per_token"] == own["fabric"]["wavelet_hops_per_token"]
    assert set(row) <= {*COLUMNS, "best", "cycles_by", "ranges"}


def test_more_wafers_slow_a_stream_down_only_by_the_crossings(compared: Report) -> None:
    """Crossings between wafers account for nearly all of the additional time per token.

    Without the crossings, each wafer adds the same number of cycles, for the paths to the edges of the wafers. It is
    small compared with the time of a layer. A token crosses to each further wafer, and its id returns to the first one.
    """
    first, *rows = (row for row in compared["rows"] if row["mapping"] == "region")
    clock_hz = load_wafer("wse3").clock_hz
    layer_cycles = first["tpot_s"] * clock_hz / 4
    extra = []
    for row in rows:
        assert row["tpot_s"] > first["tpot_s"]
        without = row["tpot_s"] * (1 - row["crossing_fraction"])
        extra.append((without - first["tpot_s"]) * clock_hz / row["wafers"])
    assert extra == pytest.approx([extra[0]] * len(extra), abs=1)
    assert 0 < extra[0] < 0.1 * layer_cycles


def timed_estimate_of(base: EstimateRequest) -> TimedEstimate:
    """Return the estimate of a request, with its deployment."""
    prepared = prepare_estimate(base)
    return timed_estimate(prepared, compile_fastest(prepared).program)


def test_users_of_a_row_are_the_fewest_that_saturate_the_machine(compared: Report, base: EstimateRequest) -> None:
    for row in compared["rows"]:
        if row.get("link_latency_s") in (SLOWEST.latency_s, FASTEST.latency_s):
            continue
        deployment = timed_estimate_of(replace(base, mapping=row["mapping"], wafers=row["wafers"])).deployment
        points = [operating_point(deployment, row["users"] + more) for more in (-1, 0, 100)]
        assert [point.saturated for point in points] == [False, True, row["saturated"]] == [False, True, True]
        assert points[2].tokens_per_s == pytest.approx(row["tokens_per_s"], rel=0.03)
        assert points[1].tokens_per_s_per_user == row["tokens_per_s_per_user_of_all"]
        assert points[1].ttft_s == row["ttft_s_of_all"] > row["ttft_s"]
        assert f"KV cache: {deployment.max_concurrency:,} users of 25 tokens fit" in row["limit"]


def test_users_of_a_row_are_limited_by_the_kv_cache(base: EstimateRequest) -> None:
    estimated, economics = timed_estimate_of(replace(base, wafers=2)), load_economics(load_wafer("wse3"))
    for room in (3, 0):
        smaller = replace(estimated, deployment=replace(estimated.deployment, max_concurrency=room))
        row = row_of(smaller, base, WaferLink(1e9, 1e-6), economics)
        assert row.users == room
        assert USERS.text(row) == ("3 fit" if room else "0")
        assert (row.usd_per_million_tokens is None) == (room == 0)
        if room:
            point = operating_point(smaller.deployment, room)
            assert (row.tokens_per_s, row.tokens_per_s_per_user_of_all) == (
                point.tokens_per_s,
                point.tokens_per_s_per_user,
            )


def test_default_numbers_of_wafers_are_multiples_of_the_fewest(base: EstimateRequest) -> None:
    rows = compared_report(CompareRequest(base=base, candidates=("region",), link_latency_us=(5.0,)))["rows"]
    assert [row["wafers"] for row in rows] == [1, 2, 4]
    assert all(math.isclose(row["link_latency_s"], 5e-6) for row in rows[1:])
    assert "link_latency_s" not in rows[0]


def test_verdict_is_for_the_own_link_of_the_wafer_and_names_it(base: EstimateRequest) -> None:
    """The order in which links are requested has no effect on the verdict."""
    verdicts = []
    for latencies_us in ((20.0, 5.0), (5.0, 20.0)):
        request = CompareRequest(base=base, wafers=(2,), mappings=("region",), link_latency_us=latencies_us)
        report = compared_report(request)
        own_row = next(
            row for row in report["rows"] if row["link_latency_s"] == load_wafer("wse3").wafer_link_latency_s
        )
        assert own_row is report["rows"][0]
        assert "Over links of 150 GB/s and 5 µs, 2 wafers (region) are" in report["verdict"][0]
        assert f"{own_row['tokens_per_s_per_user']:,.0f} tokens/s" in report["verdict"][0]
        verdicts.append(report["verdict"])
    assert verdicts[0] == verdicts[1]


def test_comparison_in_which_nothing_fits_is_refused(base: EstimateRequest) -> None:
    small = replace_options(base, mesh="2x2", context=32, batch=64)
    with pytest.raises(DoesNotFit, match="no combination of mapping and wafers is possible: region on 1: ") as error:
        compared_report(CompareRequest(base=small, wafers=(1, 5), candidates=("region",)))
    mesh = re.search(r"--mesh (\d+x\d+)", str(error.value))
    bigger = CompareRequest(base=replace_options(small, mesh=mesh[1]), wafers=(1, 5), candidates=("region",))
    assert compared_report(bigger)["rows"][0]["mapping"] == "region"


def test_best_of_each_machine_is_marked(compared: Report) -> None:
    machines = {(row["wafers"], row.get("link_bytes_per_s"), row.get("link_latency_s")) for row in compared["rows"]}
    assert len(machines) == 7
    for machine in machines:
        rows = [
            row
            for row in compared["rows"]
            if (row["wafers"], row.get("link_bytes_per_s"), row.get("link_latency_s")) == machine
        ]
        for what, key in ((ONE_USER, "tokens_per_s_per_user"), (ALL_USERS, "tokens_per_s")):
            (best,) = (row for row in rows if what in row.get("best", ()))
            assert best[key] == max(row[key] for row in rows)


def test_killed_process_ends_the_comparison(base: EstimateRequest) -> None:
    """Refuse to give a verdict, because the combination of the killed process may be the best one."""
    killed = KilledItem("its process was ended 2 times (signal 9)")
    pool = Pool(processes=2, outputs=lambda *_: iter([(1, killed)]))
    with pytest.raises(BadInput, match=r"^region, 1 wafer: its process was ended 2 times \(signal 9\)$"):
        compare(CompareRequest(base=base, wafers=(1, 2), candidates=("region",)), ignore, pool)


@pytest.mark.slow
def test_strategies_that_cannot_apply_are_tried_only_on_request(base: EstimateRequest) -> None:
    names = tuple(name for name in strategies() if name != "auto")  # `auto` only tries the other strategies
    unasked = compared_report(CompareRequest(base=base, wafers=(1, 2), own_link=True, candidates=names))
    assert {(row["mapping"], row["wafers"]) for row in unasked["rows"]} == {
        ("bands", 1),
        ("pipeline", 1),
        ("region", 1),
        ("bands", 2),
        ("pipeline", 2),
        ("region", 2),
        ("tensor", 2),
    }, "no experts in a dense model, and a single wafer has nothing to span"
    assert "expert" not in unasked["inputs"]["mapping"]
    asked = compared_report(CompareRequest(base=base, wafers=(1,), mappings=("region", "tensor", "expert")))
    assert list(dict.fromkeys(row["mapping"] for row in asked["rows"])) == ["region", "tensor", "expert"]
    assert "has no experts" in asked["rows"][-1]["reason"]
