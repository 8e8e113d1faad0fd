"""Two executed runs side by side: their reports' numbers, and differences that add up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.runs import traced_run
from wse.backends.fabric.causes import CAUSES
from wse.errors import BadTrace
from wse.reports.result import Report
from wse.studies.compare.grid.verdict import change_of_runs
from wse.tracing.query.two_traces.compare import compare_traces
from wse.tracing.query.two_traces.comparison_row import COLUMNS

Runs = tuple[list[Report], list[Path], Report]
ASKED: dict[str, Any] = {"prompt_ids": (1, 2, 3), "mesh": "3x3", "new_tokens": 9, "schedule": "baseline"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The same prompt on one wafer and on two: both reports, both traces, their comparison."""
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


def test_run_without_a_decoded_token(runs: Runs, tmp_path: Path) -> None:
    _, (path, _), _ = runs
    one = traced_run(tmp_path, **ASKED | {"new_tokens": 1}).path
    with pytest.raises(BadTrace, match=r"run\.h5: has no pass that decoded a token"):
        compare_traces(path, one)


@pytest.mark.slow
def test_another_clock_is_the_cause(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the same cycles at twice the clock no cause has a part; where cycles change too, that is said of them."""
    settings = ((), ("wafer.clock_hz=x2",), ("wafer.clock_hz=x2", "wafer.hop_cycles=x4"))
    paths = [traced_run(tmp_path_factory.mktemp("run"), **ASKED, settings=each).path for each in settings]
    same, faster, longer = (change_of_runs(*compare_traces(paths[0], path).rows) for path in paths)
    assert same.startswith("One user gets ")
    assert faster.endswith("tokens/s, at 1.75 GHz in place of 875 MHz.")
    assert "because" not in faster
    assert re.search(r"at 1\.75 GHz in place of 875 MHz; a token takes [\d.]+ % more cycles, because words on", longer)


def test_trace_of_an_unknown_wafer_has_no_power(runs: Runs, tmp_path: Path) -> None:
    _, (path, _), _ = runs
    (tmp_path / "mine.toml").write_text('base = "wse3"\n')
    other = traced_run(tmp_path, **ASKED, wafer=str(tmp_path / "mine.toml")).path
    known, unknown = compare_traces(path, other).to_dict()["rows"]
    costs = {"power_w", "joules_per_token", "usd_per_million_tokens"}
    assert costs <= known.keys()
    assert costs.isdisjoint(unknown)
    assert unknown["tokens_per_s"] == known["tokens_per_s"]
