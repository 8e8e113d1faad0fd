"""What is reported of one PE is what plain h5py finds in the file for it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.inspect.runs import TWO_WAFERS, traced_run
from tests.traces.conftest import HEADER, write
from wse.errors import BadInput
from wse.tracing.query.places.pe import pe_place, read_pe
from wse.tracing.query.view import trace_at
from wse_traces import TraceWriter
from wse_traces.schema import DIRECTIONS, USES


def facts_of(path: Path, wafer: int, row: int, col: int) -> dict[str, Any]:
    with trace_at(path) as trace:
        return read_pe(trace, wafer, row, col).to_dict()


@pytest.mark.parametrize(("wafer", "row", "col"), [(0, 0, 0), (0, 5, 3), (0, 4, 4), (1, 3, 5)])
def test_bytes_busy_time_and_links_are_those_of_the_file(wafer: int, row: int, col: int) -> None:
    facts = facts_of(TWO_WAFERS, wafer, row, col)
    with h5py.File(TWO_WAFERS) as file:
        used, words, busy = (file[path][wafer] for path in ("sram/bytes_per_pe", "links/words", "pe/busy_cycles"))
        ends = file["passes/start_cycle"][()] + file["schedules/cycles"][()][file["passes/schedule"][()]]
    assert facts["sram"]["bytes"] == dict(zip(USES, used[:, row, col].tolist(), strict=True))
    assert facts["busy_cycles"] == busy[row, col]
    assert facts["run_cycles"] == ends.max()
    assert facts["busy_fraction"] == pytest.approx(busy[row, col] / ends.max())
    padded = np.pad(words, ((0, 0), (1, 1), (1, 1)))
    around = {"north": padded[2, row, col + 1], "east": padded[3, row + 1, col + 2]}
    around |= {"south": padded[0, row + 2, col + 1], "west": padded[1, row + 1, col]}
    for at, direction in enumerate(DIRECTIONS):
        assert facts["links"][direction] == {"out_words": words[at, row, col], "in_words": around[direction]}


def test_map_of_the_stage_fills_its_bytes_use_by_use() -> None:
    """Buffers that live at different times may share addresses; those that live always do not."""
    facts = facts_of(TWO_WAFERS, 1, 3, 1)
    buffers, used = facts["sram"]["buffers"], facts["sram"]["bytes"]
    assert facts["stage"] == {
        "index": 2, "row": 0, "col": 0, "rows": 4, "cols": 6, "layers": [2, 3], "first_layer": 2, "last_layer": 3
    }  # fmt: skip
    assert facts["sram"]["is_fullest"]
    assert [b["address"] for b in buffers] == sorted(b["address"] for b in buffers)
    assert all(b["address"] + b["bytes"] <= sum(used.values()) for b in buffers)
    always = [b for b in buffers if not b["live_from"]]
    for before, after in itertools.pairwise(always):
        assert before["address"] + before["bytes"] <= after["address"]
    held = {
        address for b in buffers if b["use"] == "weights" for address in range(b["address"], b["address"] + b["bytes"])
    }
    assert 0 <= used["weights"] - len(held) <= 2 * len(buffers)  # all except padding to whole words
    assert {b["name"] for b in buffers if b["use"] == "weights"} >= {"layers.3.o", "layers.3.down"}


def test_routes_are_those_that_cover_the_pe() -> None:
    facts = facts_of(TWO_WAFERS, 0, 2, 5)
    with h5py.File(TWO_WAFERS) as file:
        routes = {name: column[()] for name, column in file["routes"].items()}
        names = file["strings/names"][()]
    want = sorted(
        (int(routes["colour"][i]), names[routes["pattern"][i]].decode(), int(routes["stage"][i]))
        for i in range(len(routes["colour"]))
        if routes["wafer"][i] == 0
        and routes["row"][i] <= 2 < routes["row"][i] + routes["rows"][i]
        and routes["col"][i] <= 5 < routes["col"][i] + routes["cols"][i]
    )
    assert sorted((r["colour"], r["pattern"], r["stage"]) for r in facts["routes"]) == want
    assert {r["axis"] for r in facts["routes"]} <= {"row", "col", "both"}
    assert len(want) > 5


def test_pe_outside_of_every_region(tmp_path: Path) -> None:
    facts = facts_of(write(tmp_path / "t.h5"), 1, 5, 4)
    assert "stage" not in facts
    assert facts["sram"]["bytes"] == {**dict.fromkeys(USES, 0), "free": 1000}
    assert (facts["sram"]["buffers"], facts["routes"]) == ([], [])


def test_region_on_two_wafers_has_its_map_on_both(tmp_path: Path) -> None:
    path = traced_run(tmp_path, prompt_ids=(1, 2), wafers=2, mesh="4x4", mapping="tensor", new_tokens=2).path
    first, second = (facts_of(path, wafer, 0, 0) for wafer in range(2))
    assert first["sram"] == second["sram"]
    assert len(first["sram"]["buffers"]) > 5
    assert second["stage"]["index"] > first["stage"]["index"]


def test_where_pes_are_dead_links_are_not_told_and_the_mesh_is_that_of_programs(tmp_path: Path) -> None:
    path = traced_run(tmp_path, prompt_ids=(1, 2), mesh="8x8", defects="0.04", defects_seed=3, new_tokens=2).path
    facts = facts_of(path, 0, 0, 0)
    assert "links" not in facts
    assert facts["busy_cycles"] > 0
    with trace_at(path) as trace:
        rows, cols = trace.header.options["mesh"]  # type: ignore[misc]
        assert rows * cols < trace.header.rows * trace.header.cols
        with pytest.raises(BadInput, match=rf"--pe {rows},{cols}: the mesh of .* is {rows}x{cols}"):
            read_pe(trace, 0, rows, cols)


@pytest.mark.parametrize(
    "text", ["", "3", "3,", "-1,2", "1,2,3", "1:2", "a,b", "1;2", "9999999999,1", "1:1:1,1", "٣,٣"]
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(BadInput, match=r"--pe .*: give row and column as ROW,COL, or WAFER:ROW,COL, such as 0,3"):
        pe_place(text)


def test_what_was_not_recorded_is_left_out(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER):
        pass
    assert facts_of(tmp_path / "t.h5", 0, 0, 0) == {"wafer": 0, "row": 0, "col": 0, "routes": []}
