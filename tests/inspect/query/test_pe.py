"""Tests of queries on one PE and on links: SRAM bytes, busy time, routes, buffer lifetimes and busiest links."""

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.inspect.runs import TWO_WAFERS, TracedRun, inspect, traced_run
from tests.traces.conftest import HEADER, write
from wse.errors import BadInput
from wse.tracing.export.sram_png import sram_png_of
from wse.tracing.query.places.pe import read_pe
from wse.tracing.query.places.sram_lives import read_sram_lives
from wse.tracing.query.view import trace_at
from wse.tracing.requests import InspectRequest, pe_place
from wse_traces import TraceWriter, open_trace
from wse_traces.schema import DIRECTIONS, KINDS, USES


def facts_of(path: Path, wafer: int, row: int, col: int) -> dict[str, Any]:
    """Return what the query on one PE reports."""
    with trace_at(path) as trace:
        return read_pe(trace, wafer, row, col).to_dict()


@pytest.mark.parametrize(("wafer", "row", "col"), [(0, 0, 0), (0, 5, 3), (0, 4, 4), (1, 3, 5)])
def test_bytes_busy_time_and_links_of_a_pe_equal_those_of_the_file(wafer: int, row: int, col: int) -> None:
    facts = facts_of(TWO_WAFERS, wafer, row, col)
    with h5py.File(TWO_WAFERS) as file:
        used, words, busy = (file[path][wafer] for path in ("sram/bytes_per_pe", "links/words", "pe/busy_cycles"))
        ends = file["passes/start_cycle"][()] + file["schedules/cycles"][()][file["passes/schedule"][()]]
    assert facts["sram"]["bytes"] == dict(zip(USES, used[:, row, col].tolist(), strict=True))
    assert facts["busy_cycles"] == busy[row, col]
    assert facts["run_cycles"] == ends.max()
    assert facts["busy_fraction"] == pytest.approx(busy[row, col] / ends.max())
    padded = np.pad(words, ((0, 0), (1, 1), (1, 1)))
    incoming_words = {"north": padded[2, row, col + 1], "east": padded[3, row + 1, col + 2]}
    incoming_words |= {"south": padded[0, row + 2, col + 1], "west": padded[1, row + 1, col]}
    for index, direction in enumerate(DIRECTIONS):
        assert facts["links"][direction] == {"out_words": words[index, row, col], "in_words": incoming_words[direction]}


def test_buffers_of_a_pe_match_the_bytes_of_its_stage() -> None:
    """Buffers with different lifetimes may share addresses; buffers that are always needed may not."""
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
    weight_addresses = {
        address for b in buffers if b["use"] == "weights" for address in range(b["address"], b["address"] + b["bytes"])
    }
    assert 0 <= used["weights"] - len(weight_addresses) <= 2 * len(buffers)  # the rest is padding to whole words
    assert {b["name"] for b in buffers if b["use"] == "weights"} >= {"layers.3.o", "layers.3.down"}


def test_routes_of_a_pe_are_those_that_cover_it() -> None:
    facts = facts_of(TWO_WAFERS, 0, 2, 5)
    with h5py.File(TWO_WAFERS) as file:
        routes = {name: column[()] for name, column in file["routes"].items()}
        names = file["strings/names"][()]
    expected = sorted(
        (int(routes["colour"][i]), names[routes["pattern"][i]].decode(), int(routes["stage"][i]))
        for i in range(len(routes["colour"]))
        if routes["wafer"][i] == 0
        and routes["row"][i] <= 2 < routes["row"][i] + routes["rows"][i]
        and routes["col"][i] <= 5 < routes["col"][i] + routes["cols"][i]
    )
    assert sorted((r["colour"], r["pattern"], r["stage"]) for r in facts["routes"]) == expected
    assert {r["axis"] for r in facts["routes"]} <= {"row", "col", "both"}
    assert len(expected) > 5


def test_pe_outside_of_all_regions_has_no_stage(tmp_path: Path) -> None:
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


def test_pe_of_a_wafer_with_dead_pes_has_no_links_and_logical_coordinates(tmp_path: Path) -> None:
    options = {"mesh": "8x8", "mapping": "region", "defects": "0.04", "defects_seed": 3}
    path = traced_run(tmp_path, prompt_ids=(1, 2), new_tokens=2, **options).path
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
def test_invalid_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--pe .*: give row and column as ROW,COL, or WAFER:ROW,COL, such as 0,3"):
        pe_place(text)


@pytest.fixture(scope="module")
def trace_and_words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Return a trace whose link words fill several chunks and have many ties, and the words.

    The words are int64 ``[2 wafers, 4 directions, 150, 135]``.
    """
    header = replace(HEADER, rows=150, cols=135)
    planes = np.random.default_rng(11).integers(0, 40, (2, 4, 150, 135)) ** 3
    path = tmp_path_factory.mktemp("large") / "t.h5"
    with TraceWriter(path, header) as writer:
        for plane in planes:
            writer.append_plane("links/words", plane)
    return path, planes


@settings(max_examples=5, deadline=None)
@given(top=st.integers(0, 700))
def test_busiest_links_have_the_most_words(trace_and_words: tuple[Path, np.ndarray], top: int) -> None:
    path, planes = trace_and_words
    links = inspect(path, links=True, top=top, each_layer=True)["links"]
    words = [link["words"] for link in links]
    assert words == np.sort(planes.ravel())[::-1][:top].tolist()
    places = [(link["wafer"], DIRECTIONS.index(link["direction"]), link["row"], link["col"]) for link in links]
    assert len(set(places)) == top
    assert [planes[place] for place in places] == words
    assert places == sorted(places, key=lambda place: (-planes[place], *place))


@settings(max_examples=5, deadline=None)
@example(top=8)  # exactly all links of a tie
@given(top=st.integers(0, 60))
def test_links_with_equal_words_are_one_row(trace_and_words: tuple[Path, np.ndarray], top: int) -> None:
    path, planes = trace_and_words
    ties = [(-words, *place) for place in np.ndindex(2, 4) for words in np.unique(planes[place]).tolist() if words]
    links = inspect(path, links=True, top=top)["links"]
    assert len(links) == min(top, len(ties))
    for link, (words, wafer, direction) in zip(links, sorted(ties), strict=False):
        rows, cols = np.nonzero(planes[wafer, direction] == -words)
        assert (link["words"], link["wafer"], DIRECTIONS.index(link["direction"])) == (-words, wafer, direction)
        assert (link["row"], link["col"], link["count"]) == (rows[0], cols[0], len(rows))
        assert (link["rows"], link["cols"]) == ([rows.min(), rows.max()], [cols.min(), cols.max()])


@pytest.mark.parametrize("mapping", ["region", "pipeline", "tensor"])
def test_layers_of_a_link_add_up_to_its_words(tmp_path: Path, mapping: str) -> None:
    path = traced_run(tmp_path, prompt_ids=(1, 2), wafers=2, mesh="4x4", mapping=mapping, new_tokens=3).path
    links, folded = (
        inspect(path, links=True, top=1000, each_layer=each_layer)["links"] for each_layer in (True, False)
    )
    assert len(links) > 20
    counts = Counter(equal_key(link) for link in links)
    assert {equal_key(link): link["count"] for link in folded} == dict(counts)
    assert len(folded) == len(counts) < len(links)
    for link in links:
        assert sum(layer["words"] for layer in link["layers"]) == link["words"]
        words = [layer["words"] for layer in link["layers"]]
        assert words == sorted(words, reverse=True)
        assert min(words) > 0


def equal_key(link: dict[str, Any]) -> tuple[object, ...]:
    """Return a key that is the same for all links that a table merges into one row."""
    layers = sorted((each["layer"], each["words"]) for each in link["layers"])
    return link["wafer"], link["direction"], link["words"], tuple(layers)


@pytest.mark.parametrize(("column", "value"), [("pattern", 10**6), ("pattern", -5), ("row", 2**31 - 1), ("col", -9)])
def test_layers_outside_of_the_mesh_are_ignored(tmp_path: Path, column: str, value: int) -> None:
    path = write(tmp_path / "t.h5")
    with h5py.File(path, "r+") as file:
        file[f"links/layers/{column}"][...] = value
    links = inspect(path, links=True)["links"]
    assert len(links) == 20
    assert all(each["words"] > 0 for link in links for each in link["layers"])


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> TracedRun:
    folder = tmp_path_factory.mktemp("traced")
    return traced_run(folder, prompt_ids=(1, 2, 3), wafers=2, mesh="3x3", mapping="region", new_tokens=3)


@pytest.mark.parametrize("wafer", [0, 1])
def test_sram_lives_equal_the_buffers_of_the_program(traced: TracedRun, wafer: int) -> None:
    program, _, path = traced
    with open_trace(path) as trace:
        lives = read_sram_lives(trace, wafer, 1, 2)
    with h5py.File(path) as file:
        schedule = file["passes/schedule"][-1]
        first, count = (file[f"schedules/{name}"][schedule] for name in ("first_step", "steps"))
        start = file["steps/start_cycle"][first : first + count].tolist()
        crosses = (file["steps/kind"][first : first + count] == KINDS.index("cross")).tolist()
        end = [at + cycles for at, cycles in zip(start, file["steps/cycles"][first : first + count], strict=True)]
    assert lives.phase == "decode"
    expected = {}
    for buffer in program.buffers:
        if program.stages[buffer.stage].wafer == wafer:
            spans = [(start[a], int(end[b])) for phase, a, b in buffer.live if phase == program.decode_index]
            if spans or not buffer.live:
                expected[buffer.name, buffer.address] = (buffer.use, buffer.bytes, sorted(spans), not buffer.live)
    assert len(expected) > 20
    assert {
        (band.name, band.address): (band.use, band.bytes, list(band.needed), band.always) for band in lives.bands
    } == expected
    steps_on_wafer = [
        step for step, stage in enumerate(program.decode.steps.stage.tolist()) if program.stages[stage].wafer == wafer
    ]
    assert lives.first_cycle == min(start[step] for step in steps_on_wafer)
    assert lives.last_cycle == max(end[step] for step in steps_on_wafer if not crosses[step])


def test_sram_picture_differs_between_wafers(traced: TracedRun) -> None:
    image = sram_png_of(InspectRequest(trace=traced.path, pe="1:1,2", sram_png="x.png"))
    assert image.startswith(b"\x89PNG\r\n")
    assert image != sram_png_of(InspectRequest(trace=traced.path, pe="0:1,2", sram_png="x.png"))
