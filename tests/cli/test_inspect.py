"""``wse inspect`` as a user meets it: views, JSON, CSV, narrow terminals, and one line for what cannot be."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tiers import slow_but

from tests.cli.conftest import Wse
from tests.traces.conftest import HEADER
from wse_traces import Token, TraceWriter

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


def names_of(view: list[str]) -> str:
    return " ".join(view) or "summary"


@pytest.mark.parametrize("view", VIEWS, ids=names_of)
def test_what_is_printed_fits_the_terminal(
    wse: Wse, trace: str, view: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (40, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        seen = wse("inspect", trace, *view)
        assert seen.code == 0, seen.err
        assert "\x1b" not in seen.out
        assert 20 < max(map(len, seen.out.splitlines())) <= columns


@pytest.mark.parametrize("view", VIEWS, ids=names_of)
def test_json_is_one_object_with_the_view(wse: Wse, trace: str, view: list[str]) -> None:
    seen = wse("inspect", trace, *view, "--json")
    assert seen.code == 0, seen.err
    facts = json.loads(seen.out)
    assert facts["view"] == (view[0].removeprefix("--") if view else "summary")
    assert facts["complete"]
    assert facts.get("trace", facts.get("traces", [""])[0]) == trace


@pytest.mark.slow
@pytest.mark.parametrize("view", TABLES, ids=names_of)
def test_csv_is_the_table_of_the_view(wse: Wse, trace: str, empty: Path, view: list[str]) -> None:
    out = wse("inspect", trace, *view, "--csv", "-").out
    rows = list(csv.DictReader(io.StringIO(out)))
    facts = json.loads(wse("inspect", trace, *view, "--json").out)
    found = facts.get({"by": "groups", "tree": "", "cycles": ""}.get(facts["view"], facts["view"]))
    if isinstance(found, list):
        assert len(rows) == len(found)
        for row, fact in zip(rows, found, strict=True):
            plain = {name: value for name, value in fact.items() if isinstance(value, int | float)}
            assert {name: float(row[name]) for name in plain} == plain
    both = wse("inspect", trace, *view, "--csv", "rows.csv", "--json")
    assert json.loads(both.out) == facts
    assert (empty / "rows.csv").read_text() == out


def test_csv_in_a_file_leaves_the_print_out_as_it_is(wse: Wse, trace: str) -> None:
    shown = wse("inspect", trace, "--links").out
    assert wse("inspect", trace, "--links", "--csv", "rows.csv").out == shown


def test_csv_has_every_row_where_nobody_said_how_many(wse: Wse) -> None:
    path = GOLDEN / "story.h5"
    ops = ("inspect", path, "--by", "op", "--each-layer")
    assert "and 18 more" in wse(*ops).out
    every = list(csv.DictReader(io.StringIO(wse(*ops, "--csv", "-").out)))
    assert len(every) == 76
    assert "more" not in wse(*ops, "--top", "38").out
    equal = list(csv.DictReader(io.StringIO(wse("inspect", path, "--by", "op", "--csv", "-").out)))
    assert len(equal) == 20
    assert {(row["op"], row["layers"]) for row in equal} >= {("gate_up", "0:4"), ("head", "")}


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_equal_layers_and_links_are_told_once(wse: Wse, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    path = GOLDEN / "story.h5"
    for view in (["--by", "op"], ["--steps"], []):
        out = " ".join(wse("inspect", path, *view).out.split())
        assert "gate_up ×5, layers 0–4" in out or (view != ["--by", "op"] and "gate_up ×5," in out), out
    assert "gate_up" in wse("inspect", path, "--by", "kind").out
    assert "layers 0–4 ×5" in " ".join(wse("inspect", path, "--by", "layer").out.split())
    links = wse("inspect", path, "--links").out
    assert "equal links together" in " ".join(links.split())
    assert "equal links together" not in wse("inspect", path, "--links", "--each-layer").out


@pytest.mark.slow
def test_hostile_names_stay_text(wse: Wse, empty: Path) -> None:
    with TraceWriter(empty / "t.h5", replace(HEADER, model=HOSTILE, wafer=HOSTILE, mapping=HOSTILE)) as writer:
        name = writer.append_names([HOSTILE])
        writer.append("op", {"name": ["=1+2"], "kind": [HOSTILE], "layer": [-1], "stage": [0]})
        writer.append_sram(
            {
                **{key: [0] for key in ("wafer", "row", "col", "first_layer", "last_layer")},
                "rows": [6],
                "cols": [5],
                "stage_bytes": [[1, 2, 3, 4, 5, 6]],
            },
            pe_bytes=21,
        )
        buffer = {"name": [HOSTILE], "use": [1], "address": [0], "bytes": [2], "dtype": ["@x"], "stage": [0]}
        writer.append("buffer", {**buffer, "live_from": [0], "live_to": [0]})
        route = {key: [0] for key in ("stage", "colour", "axis", "wafer", "row", "col")}
        writer.append("route", {**route, "pattern": name, "rows": [6], "cols": [5]})
        steps: dict[str, Any] = {key: [0] for key in ("op", "stage", "layer", "wafer", "kind", "start_cycle")}
        steps |= {"name": name, "cycles": [6], "cycles_by": [[1] * 6], "words": [3], "hops": [9]}
        schedule = writer.append_schedule(
            {**steps, "row": [0], "col": [0], "rows": [6], "cols": [5]}, phase="decode", kv_slots=1
        )
        run = writer.append_pass(schedule=schedule, start_cycle=0, wall_s=0.0)
        writer.append_tokens(
            Token(token_id=1, text=HOSTILE.encode(), is_prompt=False, pass_index=run, position=0, cycles=6, wall_s=0.0)
        )
        writer.append_tensor(np.zeros(2), pass_index=run, op=0)
    for view in ([], *(view for view in TABLES if view[:1] != ["--cycles"])):
        for form in ([], ["--csv", "-"])[: 2 if view else 1]:
            out = wse("inspect", "t.h5", *view, *form).out
            assert all(line.isprintable() for line in out.split("\n")), (view, out)
            for row in csv.reader(io.StringIO(out)) if form else ():
                for cell in row:
                    assert not cell.startswith(("=", "+", "@")), row
                    assert not cell.startswith("-") or float(cell) < 0, row
    assert "'=1+2" in wse("inspect", "t.h5", "--steps", "--csv", "-").out
    assert json.loads(wse("inspect", "t.h5", "--steps", "--json").out)["steps"][0]["op"] == "=1+2"


REFUSED: list[tuple[list[str], list[str]]] = [
    (["--steps", "--links"], ["--steps and --links", "give only one of them"]),
    (["--by", "op", "--tree", "--check"], ["--by and --tree and --check", "give only one of them"]),
    (["--steps", "--sort", "size"], ["--sort", "unknown column 'size'", "known: compute, crossing, cycles"]),
    (["--links", "--sort", "words"], ["--sort words", "goes with --steps"]),
    (["--sort", "words"], ["--sort words", "goes with --steps"]),
    (["--by", "colour"], ["--by", "unknown group 'colour'", "known: cause, kind, layer, op, token, wafer"]),
    (["--tokens", "--each-layer"], ["--each-layer: does not go with --tokens, but with --steps, --by, --links"]),
    (["--by", "kind", "--each-layer"], ["--each-layer: does not go with --by kind, but with --by op, --by layer"]),
    (["--steps", "--top", "-1"], ["--top -1", "at least 0"]),
    (["--steps", "--top", "many"], ["--top 'many'"]),
    (["--tree", "--top", "3"], ["--top 3", "does not go with --tree", "--steps, --by, --links, --tokens"]),
    (["--links", "--top", "5000"], ["--top 5000", "at most 1,000 links"]),
    (["--pe", "3"], ["--pe '3'", "ROW,COL", "such as 0,3"]),
    (["--pe", "0,0"], ["--pe 0,0", "has 2 wafers", "--pe 0:0,0"]),
    (["--pe", "2:0,0"], ["has no wafer 2", "the wafers 0 to 1"]),
    (["--pe", "0,0", "--wafer-index", "9"], ["has no wafer 9", "the wafers 0 to 1"]),
    (["--pe", "0,0", "--wafer-index", "-2"], ["--wafer-index -2", "at least 0"]),
    (["--pe", "1:0,0", "--wafer-index", "0"], ["--pe 1:0,0 and --wafer-index 0", "two wafers", "give one"]),
    (["--wafer-index", "0"], ["--wafer-index 0", "goes with --pe"]),
    (["--pe", "0:6,0"], ["--pe 6,0", "the mesh of t.h5 is 6x5", "rows 0 to 5 and columns 0 to 4"]),
    (["--pe", "0:0,5"], ["--pe 0,5", "the mesh of t.h5 is 6x5"]),
    (["--diff", "none.h5"], ["none.h5", "no such file"]),
    (["--diff", "text.h5"], ["text.h5", "not an HDF5 file"]),
    (["--diff", "other.h5"], ["other.h5", "'format' is missing"]),
    (["--diff", "."], ["is a folder"]),
    (["--csv", "x.csv"], ["--csv", "the summary is not a table", "--steps, --by"]),
    (["--steps", "--csv", "-", "--json"], ["--json and --csv -", "stdout"]),
    (["--steps", "--csv", "no/x.csv"], ["--csv no/x.csv", "no is not a folder"]),
    (["--steps", "--csv", ""], ["--csv ''", "the path is empty"]),
    (["--steps", "--csv", "."], ["--csv '.'", "is a folder"]),
    (["--steps", "--csv", "t.h5"], ["--csv t.h5: is one of the files that are read; give another name"]),
    (
        ["--diff", str(GOLDEN / "story.h5"), "--csv", str(GOLDEN / "story.h5")],
        ["story.h5: is one of the files that are read"],
    ),
    (["--cycles", "10-20"], ["--cycles 10-20", "has cycles 0 to 5"]),
]


@pytest.mark.parametrize(("options", "says"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_what_cannot_be_is_refused_in_one_line(
    wse: Wse, trace: str, empty: Path, options: list[str], says: list[str]
) -> None:
    (empty / "text.h5").write_text("no trace at all")
    with h5py.File(empty / "other.h5", "w") as file:
        file["x"] = [1]
    line = wse("inspect", trace, *options).refusal()
    assert [part for part in says if part not in line] == [], line
    assert not list(empty.glob("*.csv"))


def test_one_wafer_needs_no_number(wse: Wse) -> None:
    seen = wse("inspect", GOLDEN / "story.h5", "--pe", "3,4", "--json")
    assert json.loads(seen.out)["pe"]["wafer"] == 0
    assert "has no wafer 1; it has one wafer, 0" in wse("inspect", GOLDEN / "story.h5", "--pe", "1:3,4").refusal()


def test_a_run_that_goes_on_is_told_to_be_incomplete(wse: Wse, empty: Path) -> None:
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
def test_a_trace_of_an_estimate_has_every_view(wse: Wse, tiny: Path, defects: list[str]) -> None:
    placed = ["--wafer", "wse2", "--mesh", "8x8", "--prompt-len", "3", "--new-tokens", "4", *defects]
    said = json.loads(wse("estimate", tiny / "config.json", *placed, "--trace", "e.h5", "--json").out)
    facts = json.loads(wse("inspect", "e.h5", "--json").out)
    assert facts["decode"]["cycles_per_pass"] == pytest.approx(said["decode"]["cycles_per_token"], rel=1e-3)
    assert facts["generated_tokens"] == 4
    tokens = json.loads(wse("inspect", "e.h5", "--tokens", "--json").out)["tokens"]
    assert all({"id", "text"}.isdisjoint(token) for token in tokens)
    pe = json.loads(wse("inspect", "e.h5", "--pe", "0,0", "--json").out)["pe"]
    assert pe["busy_cycles"] > 0
    assert ("links" in pe) == (not defects)
    assert ("links  unknown: PEs are dead" in wse("inspect", "e.h5", "--pe", "0,0").out) == bool(defects)
    for view in (["--steps"], ["--by", "token"], ["--links"], ["--tree"], ["--diff", "e.h5"], ["--check"]):
        seen = wse("inspect", "e.h5", *view)
        assert seen.code == 0, seen.err
    assert wse("inspect", "e.h5", "--tokens").out.count("generated") == 4


def test_a_narrow_terminal_has_the_busiest_link_in_full(wse: Wse, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = json.loads(wse("inspect", trace, "--links", "--json").out)["links"][0]
    monkeypatch.setenv("COLUMNS", "40")
    text = wse("inspect", trace).out
    assert "…" not in text
    assert f"{wide['words']:,}" in text
