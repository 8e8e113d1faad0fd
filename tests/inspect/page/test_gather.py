"""Tests of the data that a page gets from a trace: sums equal those of the trace, and damage gives one line."""

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.inspect.runs import STORY, TWO_WAFERS
from tests.traces.conftest import HEADER, write
from wse.errors import BadTrace
from wse.tracing.page import planes, timeline, work
from wse.tracing.page.page import view_trace
from wse_traces import open_trace
from wse_traces.schema import PHASES

TRACES = [STORY, TWO_WAFERS]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the small trace, which tests must not change."""
    return write(tmp_path_factory.mktemp("sample") / "sample.h5")


def identity(values: Any) -> Any:
    """Return an array unchanged, in place of the packing of the page."""
    return values


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_work_places_and_phases_add_up_to_the_trace(path: Path) -> None:
    facts = view_trace(path, identity)
    with open_trace(path) as trace:
        steps = trace.steps()
        places = trace.top_steps(n=1 << 40)
        kinds, names, ops = trace.texts("graph/ops/kind"), trace.texts("graph/ops/name"), steps["op"]
    total = steps["cycles_by"].sum(axis=0)
    np.testing.assert_array_equal(sum(np.array(row["cycles"]) for row in facts["work"]), total)
    np.testing.assert_array_equal(facts["places"]["cycles_by"].sum(axis=0), total)
    np.testing.assert_array_equal(sum(np.array(phase["cycles_by"]) for phase in facts["phases"].values()), total)
    assert sum(phase["hops"] for phase in facts["phases"].values()) == steps["hops"].sum()
    for name, phase in facts["phases"].items():
        assert phase["cycles"] == steps["cycles"][steps["phase"] == PHASES.index(name)].sum()
    np.testing.assert_array_equal(facts["places"]["cycles"], places["cycles"])
    np.testing.assert_array_equal(facts["places"]["phase"], places["phase"])
    layers = steps["layer"]
    for row in facts["work"]:
        kind = facts["kinds"][row["kind"]]
        within = [layers == -1] if not row["layers"] else [(a <= layers) & (layers <= b) for a, b in row["layers"]]
        is_op = np.array([names[op].rpartition(".")[2] == row["op"] for op in ops.tolist()])
        selected = (steps["phase"] == row["phase"]) & np.any(within, axis=0) & (np.array(kinds)[ops] == kind) & is_op
        np.testing.assert_array_equal(steps["cycles_by"][selected].sum(axis=0), row["cycles"])
        np.testing.assert_array_equal(sum(np.array(step["cycles"]) for step in row["steps"]), row["cycles"])
        assert row["count"] == len(set(ops[selected].tolist()))
    for row in facts["stage_work"]:
        selected = (steps["stage"] == row["stage"]) & (np.array(kinds)[ops] == facts["kinds"][row["kind"]])
        assert (steps["cycles_by"][selected, 2].sum(), steps["hops"][selected].sum()) == (row["compute"], row["hops"])


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_timeline_of_every_token_has_the_steps_of_the_trace(path: Path) -> None:
    facts = view_trace(path, identity)
    with open_trace(path) as trace:
        for index, token in enumerate(facts["tokens"]):
            expected = trace.steps(index)
            schedule = facts["schedules"][token["schedule"]]
            rows = slice(schedule["first"], schedule["first"] + schedule["steps"])
            shifts = slice(*token["shifts"])
            for name, column in facts["steps"].items():
                found = column[rows] + (token["start_cycle"] if name == "start_cycle" else 0)
                if name in facts["shifts"]:
                    np.add.at(found, facts["shifts"]["step"][shifts] - schedule["first"], facts["shifts"][name][shifts])
                np.testing.assert_array_equal(found, expected[name], err_msg=name)
        assert [token["text"] for token in facts["tokens"]] == trace.token_texts()


def test_planes_and_layers_equal_those_of_the_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    facts = view_trace(path, identity)
    with open_trace(path) as trace:
        sram_bytes, words = trace.column("sram/bytes_per_pe"), trace.column("links/words")
    for wafer in range(HEADER.wafers):
        np.testing.assert_array_equal(facts["planes"][wafer]["sram.weights"], sram_bytes[wafer, 1])
        np.testing.assert_array_equal(facts["planes"][wafer]["links.west"], words[wafer, 3])
    layer_sum = np.zeros_like(words)
    for link in facts["layer_links"]:
        block = np.asarray(link["words"]).reshape(4, link["rows"], link["cols"])
        layer_sum[
            link["wafer"], :, link["row"] : link["row"] + link["rows"], link["col"] : link["col"] + link["cols"]
        ] += block
    np.testing.assert_array_equal(layer_sum, words)
    assert facts["experts"] == [{"layer": 0, "tokens": [5, 7]}]


def test_cut_tables_keep_the_most_expensive_rows_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    uncut = view_trace(TRACES[1], identity)
    longest = max(schedule["steps"] for schedule in uncut["schedules"])
    monkeypatch.setattr(work, "MAX_PLACES", 10)
    monkeypatch.setattr(planes, "MAX_ROWS", 30)
    monkeypatch.setattr(timeline, "MAX_STEPS", longest)
    facts = view_trace(TRACES[1], identity)
    np.testing.assert_array_equal(facts["places"]["cycles"], uncut["places"]["cycles"][:10])
    assert len(facts["buffers"]) == len(facts["routes"]) == 30
    whole_buffers, whole_routes = len(uncut["buffers"]), len(uncut["routes"])
    for note in (f"Of {whole_buffers} buffers the page has the first 30", f"Of {whole_routes} colours in use"):
        assert any(text.startswith(note) for text in facts["notes"])
    (schedule,) = facts["schedules"]
    slowest = max((token for token in uncut["tokens"] if token["phase"] == 1), key=lambda token: token["cycles"])
    assert schedule["cycles"] == uncut["schedules"][slowest["schedule"]]["cycles"]
    assert any(note.startswith(f"Of {len(uncut['schedules'])} sequences of steps") for note in facts["notes"])
    assert {token["schedule"] for token in facts["tokens"]} == {-1, 0}


@pytest.mark.parametrize(
    ("dataset", "value", "where"),
    [
        ("steps/op", 99, "steps/op"),
        ("steps/name", -7, "steps/name"),
        ("steps/stage", 99, "steps/stage"),
        ("sram/buffers/use", 9, "sram/buffers/use"),
        ("sram/buffers/stage", 9, "sram/buffers/stage"),
        ("sram/buffers/live_to", 99, "sram/buffers/live_to"),
        ("routes/pattern", 99, "routes/pattern"),
        ("placement/stages/wafer", 9, "placement/stages/wafer"),
        ("placement/stages/rows", -1, "placement/stages: stage 0"),
        ("placement/stages/cols", 2**31 - 1, "placement/stages: stage 0"),
        ("tokens/pass", 99, "tokens/pass"),
        ("schedules/phase", 7, "schedules/phase"),
        ("schedules/first_step", 1 << 40, "schedules"),
        ("passes/schedule", 99, "passes/schedule"),
        ("links/layers/pattern", 99, "links/layers/pattern"),
        ("experts/layer", -5, "experts/layer"),
        ("experts/expert", 1 << 30, "experts/expert"),
        ("experts/tokens", -1, "experts/tokens"),
        ("links/patterns/rows", -3, "links/patterns"),
        ("links/patterns/cols", 0, "links/patterns"),
        ("wavelets/row", 6, "wavelets/row: 6, which is out of range; make the trace again"),
    ],
)
def test_index_out_of_range_is_refused_in_one_line(
    sample: Path, tmp_path: Path, dataset: str, value: int, where: str
) -> None:
    path = Path(shutil.copy(sample, tmp_path / "a.h5"))
    with h5py.File(path, "r+") as file:
        file[dataset][0] = value
    with pytest.raises(BadTrace, match=where) as caught:
        view_trace(path, identity)
    assert str(caught.value).startswith(f"{path}: ")


def test_schedule_with_too_many_steps_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_STEPS", 100)
    facts = view_trace(TRACES[0], identity)
    assert facts["schedules"][0]["steps"] == len(facts["steps"]["op"]) == 100
    assert any(note.endswith("steps of the slowest token the timeline has the first 100.") for note in facts["notes"])


def test_notes_name_what_does_not_fit_on_the_page() -> None:
    facts = view_trace(TRACES[0], lambda values: None)
    assert facts["places"] is facts["steps"] is None
    assert facts["schedules"] == []
    assert len(facts["notes"]) == 4
    assert all("found no room on this page" in note for note in facts["notes"])


def test_note_says_that_a_run_is_incomplete(tmp_path: Path) -> None:
    path = Path(shutil.copy(TRACES[0], tmp_path / "a.h5.partial"))
    with h5py.File(path, "r+") as file:
        file.attrs.modify("complete", np.bool_(False))  # noqa: FBT003
    facts = view_trace(path, identity)
    assert not facts["complete"]
    assert facts["notes"][0].startswith("Incomplete, its run is in progress or was killed: ")
