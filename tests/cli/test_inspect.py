"""Tests of ``wse inspect``: all views as text, JSON and CSV, hostile names, damaged files and ``--check``."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from tiers import slow_but

from tests.cli.conftest import Wse
from tests.traces.conftest import HEADER, write
from wse_traces import TraceWriter

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
VIEWS = [
    [],
    ["--tree"],
    ["--steps", "--sort", "hops"],
    ["--steps", "--sort", "start"],
    ["--by", "op"],
    ["--by", "op", "--each-layer"],
    ["--by", "kind"],
    ["--by", "layer"],
    ["--by", "cause"],
    ["--by", "token"],
    ["--by", "wafer"],
    ["--links"],
    ["--links", "--each-layer"],
    ["--pe", "0:2,3"],
    ["--pe", "2,3", "--wafer-index", "1"],
    ["--tokens"],
    ["--tokens", "--top", "3"],
    ["--tensors"],
    ["--cycles", "0-9"],
    ["--diff", str(GOLDEN / "story.h5")],
]
TABLES = [view for view in VIEWS if view and view[1:] not in (["--sort", "start"], ["layer"], ["wafer"])]
HOSTILE = "\x1b[31m<script>\n=1+2[bold]"


def view_id(view: list[str]) -> str:
    return " ".join(view) or "summary"


@pytest.mark.parametrize("view", VIEWS, ids=view_id)
def test_views_fit_the_terminal(wse: Wse, trace: str, view: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    outcome = wse("inspect", trace, *view)
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert 20 < max(map(len, outcome.out.splitlines())) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("view", TABLES, ids=view_id)
def test_csv_has_the_rows_of_the_view(wse: Wse, trace: str, empty: Path, view: list[str]) -> None:
    out = wse("inspect", trace, *view, "--csv", "-").out
    rows = list(csv.DictReader(io.StringIO(out)))
    facts = json.loads(wse("inspect", trace, *view, "--json").out)
    items = facts.get({"by": "groups", "tree": "", "cycles": ""}.get(facts["view"], facts["view"]))
    if isinstance(items, list):
        assert len(rows) == len(items)
        for row, item in zip(rows, items, strict=True):
            plain = {name: value for name, value in item.items() if isinstance(value, int | float)}
            assert {name: float(row[name]) for name in plain} == plain
    both = wse("inspect", trace, *view, "--csv", "rows.csv", "--json")
    assert json.loads(both.out) == facts
    assert (empty / "rows.csv").read_text() == out


def test_csv_has_all_rows_unless_a_number_is_given(wse: Wse) -> None:
    path = GOLDEN / "story.h5"
    ops = ("inspect", path, "--by", "op", "--each-layer")
    assert "and 18 more" in wse(*ops).out
    all_rows = list(csv.DictReader(io.StringIO(wse(*ops, "--csv", "-").out)))
    assert len(all_rows) == 76
    assert "more" not in wse(*ops, "--top", "38").out
    combined_layers = list(csv.DictReader(io.StringIO(wse("inspect", path, "--by", "op", "--csv", "-").out)))
    assert len(combined_layers) == 20
    assert {(row["op"], row["layers"]) for row in combined_layers} >= {("gate_up", "0:4"), ("head", "")}


def test_unfinished_trace_is_reported_as_incomplete(wse: Wse, empty: Path) -> None:
    writer = TraceWriter(empty / "on.h5", HEADER)
    writer.flush()
    try:
        for view in ([], ["--steps"], ["--tree"], ["--links"], ["--pe", "0:1,1"], ["--tokens"], ["--by", "op"]):
            assert "incomplete" in wse("inspect", "on.h5.partial", *view).out
        assert "incomplete" in wse("inspect", GOLDEN / "story.h5", "--diff", "on.h5.partial").out
        assert "incomplete" in wse("inspect", "on.h5.partial", "--check").out
    finally:
        writer.close(complete=False)


@pytest.mark.parametrize(
    "defects", slow_but([[], ["--defects", "0.02"]], ["--defects", "0.02"]), ids=["whole", "dead PEs"]
)
def test_trace_of_an_estimate_has_every_view(wse: Wse, tiny: Path, defects: list[str]) -> None:
    placed = ("--wafer=wse2", "--mesh=8x8", "--mapping=region", "--schedule=baseline", *defects)
    lengths = ("--prompt-len=3", "--new-tokens=4")
    report = json.loads(wse("estimate", tiny / "config.json", *placed, *lengths, "--trace", "e.h5", "--json").out)
    facts = json.loads(wse("inspect", "e.h5", "--json").out)
    assert (report["trace"], facts["report"], facts["options"]["command"]) == ("e.h5", report, "estimate")
    assert facts["decode"]["cycles_per_pass"] == pytest.approx(report["decode"]["cycles_per_token"], rel=1e-3)
    assert facts["generated_tokens"] == 4
    tokens = json.loads(wse("inspect", "e.h5", "--tokens", "--json").out)["tokens"]
    assert all({"id", "text"}.isdisjoint(token) for token in tokens)
    pe = json.loads(wse("inspect", "e.h5", "--pe", "0,0", "--json").out)["pe"]
    assert pe["busy_cycles"] > 0
    assert ("links" in pe) == (not defects)
    assert ("links  unknown: PEs are dead" in wse("inspect", "e.h5", "--pe", "0,0").out) == bool(defects)
    for view in (["--steps"], ["--by", "token"], ["--links"], ["--tree"], ["--diff", "e.h5"], ["--check"]):
        outcome = wse("inspect", "e.h5", *view)
        assert outcome.code == 0, outcome.err
    assert wse("inspect", "e.h5", "--tokens").out.count("generated") == 4


@pytest.mark.slow
def test_hostile_names_are_printed_as_text_and_not_as_csv_formulas(wse: Wse, empty: Path) -> None:
    path = write(empty / "t.h5", replace(HEADER, model=HOSTILE, wafer=HOSTILE, mapping=HOSTILE), texts=[HOSTILE])
    with h5py.File(path, "r+") as file:
        for column in ("graph/ops/kind", "strings/names", "sram/buffers/name", "sram/buffers/dtype"):
            file[column][...] = [HOSTILE.encode()] * len(file[column])
        file["graph/ops/name"][...] = [b"=1+2", b"@x", b"+y"]
    for view in ([], *TABLES):
        for form in ([], ["--csv", "-"])[: 2 if view else 1]:
            out = wse("inspect", "t.h5", *view, *form).out
            assert all(line.isprintable() for line in out.split("\n")), (view, out)
            for cell in (cell for row in csv.reader(io.StringIO(out)) for cell in row if form):
                assert not cell.startswith(("=", "+", "@")), cell
                assert not cell.startswith("-") or float(cell) < 0, cell
    assert "'=1+2" in wse("inspect", "t.h5", "--steps", "--csv", "-").out
    assert "=1+2" in {step["op"] for step in json.loads(wse("inspect", "t.h5", "--steps", "--json").out)["steps"]}


FILES: list[tuple[str, str]] = [
    ("cut.h5", "truncated: it has "),
    ("lacks.h5", "steps/cycles: missing, or not a dataset of this file"),
]


@pytest.mark.parametrize(("name", "problem_part"), FILES)
def test_check_lists_the_problems_of_a_file(
    wse: Wse, files: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem_part: str
) -> None:
    monkeypatch.chdir(files)
    outcome = wse("inspect", name, "--check")
    assert (outcome.code, outcome.err) == (2, "")
    first, *problems = outcome.out.splitlines()
    assert first == f"{name}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
    assert any(problem_part in problem for problem in problems)
    as_json = wse("inspect", name, "--check", "--json")
    facts = json.loads(as_json.out)
    assert (as_json.code, facts["sound"]) == (2, False)
    assert [f"  {problem}" for problem in facts["problems"]] == problems


def test_check_of_a_valid_file_prints_one_line(wse: Wse, trace: str) -> None:
    outcome = wse("inspect", trace, "--check")
    assert outcome.code == 0
    assert outcome.out.count("\n") == 1
    assert outcome.out.startswith("t.h5: sound: trace format 1, ")
    facts = json.loads(wse("inspect", trace, "--check", "--json").out)
    with h5py.File(trace) as file:
        datasets: list[str] = []
        file.visititems(lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) else None)
        rows = int(file["run/rows"][()].sum())
    assert (facts["sound"], facts["problems"]) == (True, [])
    assert (facts["datasets"], facts["rows"]) == (len(datasets), rows)
