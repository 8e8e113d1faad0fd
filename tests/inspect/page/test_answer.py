"""Tests of the summary data on the page of a trace, and of its agreement with ``wse inspect``."""

import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from rich.console import Console

from tests.inspect.runs import GOLDEN, STORY, TWO_WAFERS
from tests.traces.conftest import moves, write
from wse.reports.number_text import percent
from wse.tracing.page import planes as page_moves
from wse.tracing.page.page import answer_data, view_trace
from wse.tracing.print.steps import print_tree
from wse.tracing.query.costs.groups import read_groups
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.tree import TreeView, read_tree
from wse.tracing.query.two_traces.compare import compare_traces
from wse.tracing.query.view import source_of
from wse_traces import open_trace

ESTIMATE = GOLDEN / "story-estimate.h5"


def answer_of(path: Path) -> dict[str, Any]:
    with open_trace(path) as trace:
        return dict(answer_data(trace)["answer"])


def test_answer_of_an_estimate_has_the_numbers_and_grades_of_its_report() -> None:
    with open_trace(ESTIMATE) as trace:
        report: Any = trace.report()
    answer = answer_of(ESTIMATE)
    numbers, token = answer["numbers"], report["bounds"]["token"]
    assert numbers["first_token_s"] == report["latency"]["ttft_s"]
    assert [numbers["usd"], numbers["usd_low"], numbers["usd_high"]] == [
        report["cost"]["usd_per_million_tokens"],
        *report["cost"]["range"],
    ]
    assert numbers["joules"] == report["energy"]["joules_per_token"]
    assert (answer["bound"], numbers["bound_ratio"]) == (token["limit"], token["ratio"])
    assert answer["grades"]["usd"] == report["grades"]["cost.usd_per_million_tokens"]
    assert answer["grades"]["bound"] == {"grade": token["bound_grade"], "source": token["bound_source"]}


@pytest.mark.parametrize(
    "report",
    [
        {"cost": []},
        {"cost": {"usd_per_million_tokens": "cheap", "range": {}}, "energy": 7, "grades": [1]},
        {"cost": {"usd_per_million_tokens": True, "range": [-1, None]}, "latency": {"ttft_s": 10**400}},
        {"bounds": {"gap": [3, {"cause": "x", "cycles": 1}, {"cause": "hops"}], "token": [1]}, "decode": None},
        {"grades": {"cost.usd_per_million_tokens": {"grade": "II"}, "latency.ttft_s": "M"}},
    ],
    ids=str,
)
def test_malformed_report_gives_an_empty_answer(tmp_path: Path, report: dict[str, Any]) -> None:
    path = write(tmp_path / "a.h5")
    content = np.frombuffer(json.dumps(report).encode(), "u1")
    with h5py.File(path, "r+") as file:
        file["run/summary"].resize((len(content),))
        file["run/summary"][...] = content
        rows = file["run/rows"]
        index = rows.attrs["labels"].decode().split(",").index("summary_byte")
        rows[index] = len(content)
    answer = answer_of(path)
    assert answer == {"numbers": {}, "grades": {}, "bound": None, "gap": []}


@pytest.mark.parametrize("path", [TWO_WAFERS, ESTIMATE], ids=lambda path: path.stem)
def test_median_token_and_schedules_have_cycles_by_kind_of_op(path: Path) -> None:
    facts = view_trace(path, lambda values: values)
    decoded = [index for index, token in enumerate(facts["tokens"]) if token["phase"] == 1]
    cycles = sorted(facts["tokens"][index]["pass_cycles"] for index in decoded)
    median = facts["median"]
    assert median["cycles"] == facts["tokens"][median["token"]]["pass_cycles"] == cycles[(len(cycles) - 1) // 2]
    with open_trace(path) as trace:
        kinds = np.array(trace.texts("graph/ops/kind"))
        for token, expected in ((median["token"], median), *((index, None) for index in decoded)):
            schedule = facts["schedules"][facts["tokens"][token]["schedule"]]
            steps = trace.steps(token)
            cycles_by_kind = [int(steps["cycles"][kinds[steps["op"]] == kind].sum()) for kind in facts["kinds"]]
            assert (expected or schedule)["by_kind"] == [*cycles_by_kind, 0]
            assert (expected or schedule)["kv_slots"] == schedule["kv_slots"]


def test_moves_of_the_last_logged_pass_equal_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5")
    facts = view_trace(path, lambda values: values)
    expected = [moves(0), moves(4)]
    assert facts["moves"]["pass"] == 1
    with open_trace(path) as trace:
        token = trace.column("tokens/pass").tolist().index(1)
        assert facts["moves"]["token"] == token
        for name, column in facts["moves"]["steps"].items():
            assert column.tolist() == trace.steps(token)[name].tolist()
    for name in ("cycle", "step", "wafer", "row", "col", "direction"):
        assert facts["moves"]["columns"][name].tolist() == [*expected[0][name], *expected[1][name]]
    monkeypatch.setattr(page_moves, "MAX_MOVES", 5)
    facts = view_trace(path, lambda values: values)
    assert facts["moves"]["columns"]["cycle"].tolist() == [0, 1, 1, 4]
    assert "Of 6 moves of wavelets the page plays the first 4." in facts["notes"]
    assert view_trace(TWO_WAFERS, lambda values: values)["moves"] is None


def test_answer_of_a_run_has_only_its_rates() -> None:
    answer = answer_of(TWO_WAFERS)
    assert set(answer["numbers"]) == {"user_rate", "prompt_rate"}
    assert (answer["grades"], answer["bound"], answer["gap"]) == ({}, None, [])


def test_trace_without_a_decoded_token_has_no_median(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["schedules/phase"][...] = 0
    facts = view_trace(path, lambda values: values)
    assert facts["median"] is None


TRACES = [STORY, TWO_WAFERS]


def test_tree_includes_cycles_without_op() -> None:
    with open_trace(TWO_WAFERS) as trace:
        sums = StepSums(trace)
        sums.steps["op"][0] = -1  # the most expensive step belongs to no op
        view = TreeView(**source_of(trace, "tree"), phases=sums.phases(), tree=tuple(read_tree(sums)))
        kinds = read_groups(sums, "kind", None)
    console = Console(file=io.StringIO(), width=100)
    print_tree(console, view)
    shown = {line.split()[0]: line for line in console.file.getvalue().splitlines() if line.strip()}  # type: ignore[attr-defined]
    head = next(kind for kind in kinds if (kind.phase, kind.kind) == ("decode", "head"))
    assert percent(head.fraction) in shown["head"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_sram_fraction_is_the_same_on_the_page_and_in_the_comparison(path: Any) -> None:
    stages = view_trace(path, lambda values: values)["stages"]
    row = compare_traces(path, path).rows[0]
    assert max(stage["used_fraction"] for stage in stages) == row.sram_fullest_pe_fraction
