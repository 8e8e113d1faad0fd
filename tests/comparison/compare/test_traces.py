"""Tests of comparing executed runs by their traces, and result rows that other tests of comparisons reuse."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.runs import traced_run
from wse.backends.fabric.causes import CAUSES
from wse.errors import BadTrace
from wse.reports.result import Report
from wse.studies.compare.result import CompareResult
from wse.studies.compare.tables import reasons
from wse.studies.results.placement import ModelResult
from wse.tracing.query.two_traces.compare import compare_traces
from wse.tracing.query.two_traces.comparison_row import COLUMNS, ComparisonRow

Runs = tuple[list[Report], list[Path], Report]
ASKED: dict[str, Any] = {"prompt_ids": (1, 2, 3), "mesh": "3x3", "new_tokens": 9, "schedule": "baseline"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return the reports, trace paths and comparison of two runs of the same prompt, on one wafer and on two."""
    made = [traced_run(tmp_path_factory.mktemp("run"), **ASKED, wafers=wafers) for wafers in (1, 2)]
    paths = [one.path for one in made]
    return [one.report for one in made], paths, compare_traces(*paths).to_dict()


def test_row_has_the_numbers_of_the_run(runs: Runs) -> None:
    reports, paths, compared = runs
    for report, path, row in zip(reports, paths, compared["rows"], strict=True):
        by, generated = report["decode"]["cycles_by"], len(report["tokens"])
        want = {
            "trace": str(path),
            "mapping": report["system"]["mapping"],
            "wafers": report["system"]["wafers"],
            "users": 1,
            "tokens_per_s_per_user": report["decode"]["tokens_per_s_per_user"],
            "tokens_per_s": generated
            / (report["prefill"]["ttft_s"] + (generated - 1) / report["decode"]["tokens_per_s"]),
            "prefill_tokens_per_s": report["prefill"]["tokens_per_s"],
            "mesh_hops_per_token": report["fabric"]["wavelet_hops_per_token"],
            "wafer_link_bytes_per_token": report["crossing"]["bytes_per_token"],
            "host_bytes_per_token": report["crossing"]["host_bytes_per_token"],
            "crossing_fraction": by["crossing"] / sum(by.values()),
            "sram_fullest_pe_fraction": report["sram"]["fullest_pe_fraction"],
        }
        assert {key: row[key] for key in want} == {
            key: value if isinstance(value, str) else pytest.approx(value) for key, value in want.items()
        }
        assert set(row) <= {*COLUMNS, "cycles_by"}
        assert row["limited_by"] == max(by, key=lambda cause: by[cause])
        assert row["power_w"] > 0
    assert not compared["same_program"]


def test_differences_add_up_and_the_largest_comes_first(runs: Runs) -> None:
    reports, _, compared = runs
    for phase, total in (("decode", "cycles_per_token"), ("prefill", "cycles")):
        changes = compared["changes"][phase]
        (whole,) = (change for change in changes if change["kind"] == "all")
        assert [whole["first"], whole["second"]] == pytest.approx([report[phase][total] for report in reports])
        for kind in ("cause", "op"):
            mine = [change["change"] for change in changes if change["kind"] == kind]
            assert sum(mine) == pytest.approx(whole["change"])
            assert [abs(change) for change in mine] == sorted(map(abs, mine), reverse=True)
        causes = {change["name"]: change for change in changes if change["kind"] == "cause"}
        assert set(causes) <= set(CAUSES)
        crossing = causes["crossing"]
        assert crossing["first"] == 0
        assert crossing["second"] > 0
    traffic = {change["name"]: change for change in compared["changes"]["decode"] if change["kind"] == "traffic"}
    for name, section, key in (
        ("words", "fabric", "words_per_token"),
        ("wavelet hops", "fabric", "wavelet_hops_per_token"),
        ("between wafers", "crossing", "bytes_per_token"),
    ):
        want = [report[section][key] for report in reports]
        assert [traffic[name]["first"], traffic[name]["second"]] == pytest.approx(want), name


def test_run_does_not_differ_from_itself(runs: Runs) -> None:
    _, (path, _), _ = runs
    compared = compare_traces(path, path).to_dict()
    assert compared["same_program"]
    assert [change["kind"] for phase in compared["changes"].values() for change in phase] == ["all", "all"]


def test_run_without_a_decoded_token_is_refused(runs: Runs, tmp_path: Path) -> None:
    _, (path, _), _ = runs
    one = traced_run(tmp_path, **ASKED | {"new_tokens": 1}).path
    with pytest.raises(BadTrace, match=r"run\.h5: has no pass that decoded a token"):
        compare_traces(path, one)


def test_trace_of_an_unknown_wafer_has_no_power(runs: Runs, tmp_path: Path) -> None:
    _, (path, _), _ = runs
    (tmp_path / "mine.toml").write_text('base = "wse3"\n')
    other = traced_run(tmp_path, **ASKED, wafer=str(tmp_path / "mine.toml")).path
    known, unknown = compare_traces(path, other).to_dict()["rows"]
    costs = {"power_w", "joules_per_token", "usd_per_million_tokens"}
    assert costs <= known.keys()
    assert costs.isdisjoint(unknown)
    assert unknown["tokens_per_s"] == known["tokens_per_s"]


ROW = ComparisonRow(
    mapping="auto",
    chosen="pipeline",
    wafers=128,
    link_bytes_per_s=150e9,
    link_latency_s=0.5e-6,
    tokens_per_s_per_user=12_345.6,
    users=12_345,
    tokens_per_s=148_451.0,
    tokens_per_s_exact=False,
    prefill_tokens_per_s=123_456.0,
    ttft_s=0.123456,
    mesh_hops_per_token=33.8e9,
    wafer_link_bytes_per_token=474_123_456.0,
    host_bytes_per_token=139e9,
    crossing_fraction=0.7654,
    sram_fullest_pe_fraction=1.0,
    power_w=2_944_000.0,
    joules_per_token=86.4321,
    usd_per_million_tokens=12_345.678,
    limited_by="hops",
    cycles_by={"hops": 3.0, "launch": 1.0},
    limit="hops: most of it; \x1b[31mred\x1b[0m",
    best=("one_user",),
)
LESS = replace(ROW, mapping="region", chosen=None, tokens_per_s_per_user=1.5, best=("all_users",))
REASON = ComparisonRow(mapping="tensor", wafers=7, reason="--wafers 7: too many \x1b[31m")
RESULT = CompareResult(
    inputs={"model": "big", "prompt_len": 1024, "new_tokens": 1024, "batch": 1, "wafers": [4, 8]}
    | {"links": [{"bytes_per_s": 8e9, "latency_s": 2e-5}], "links_given": True},
    model=ModelResult(
        name="big", parameters=1, dtype="bfloat16", activations="bfloat16", accumulate="float32", bytes=2
    ),
    wafer={"name": "wse3", "rows": 1170, "cols": 755},
    economics={},
    rows=(ROW, LESS, *[replace(ROW, best=None)] * 108, REASON),
    verdict=("Streaming <loses>.",),
)


def test_equal_reasons_are_merged() -> None:
    rows = [ComparisonRow(mapping=name, wafers=wafers, reason="r") for name in "ab" for wafers in (1, 2)]
    assert reasons([*rows, ROW]) == [("a on 1, a on 2, b on 1, b on 2", "r")]
