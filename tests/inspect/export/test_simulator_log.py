"""Tests of the export of wavelets in the log format of the vendor's simulator: every wavelet has a complete path."""

import re
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from tests.inspect import runs
from tests.traces.conftest import HEADER, write
from wse.errors import BadInput, BadTrace
from wse.tracing.export import router_events
from wse_traces import TraceWriter

SIZE = re.compile(r"@(\d+) dimX=(\d+), dimY=(\d+)")
WAVELET = re.compile(
    r"@(\d+) P(\d+)\.(\d+) \(hwtile\) wavelet C(\d+) ctrl=([01]), idx=[0-9a-f]+, data=[0-9a-f]+ "
    r"\([^()]*\([^()]*\)\), half=\d, ident=([0-9a-f]{16}) landing=([NESWR-]) "
    r"departing=/([E ])([N ])([W ])([S ])([R ])/(, to_ce_from_(?:q|router))?, step=(\d+)"
)
STEP = {"N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}
OPPOSITE = {"N": "S", "S": "N", "E": "W", "W": "E"}


@dataclass(frozen=True)
class Event:
    """A wavelet at a router in one cycle.

    Attributes:
        cycle: Cycle number.
        x, y: Column and row of the PE.
        colour: Colour of the wavelet.
        ident: Identifier of the wavelet.
        landing: Side from which it arrives (N, E, S, W or R for the ramp); "-" if it was already in the router.
        departing: Sides to which it leaves.
        delivered: How it reaches the PE; empty if it does not.
        step: Index of the step.
    """

    cycle: int
    x: int
    y: int
    colour: int
    ident: str
    landing: str
    departing: str
    delivered: str
    step: int


def read_simulator_trace(text: str) -> tuple[tuple[int, int], list[Event]]:
    """Parse a log and check every line; return (columns, rows) of the mesh and the events."""
    lines = text.splitlines()
    size = SIZE.fullmatch(lines[0])
    assert size, lines[0]
    cols, rows = int(size[2]), int(size[3])
    events = []
    for line in lines[1:]:
        found = WAVELET.fullmatch(line)
        assert found, line
        cycle, x, y, colour = (int(found[i]) for i in range(1, 5))
        departing = "".join(found[i] for i in range(8, 13)).replace(" ", "")
        event = Event(cycle, x, y, colour, found[6], found[7], departing, found[13] or "", int(found[14]))
        assert ("R" in departing) == bool(event.delivered), line
        assert x < cols, line
        assert y < rows, line
        assert event.landing != "-" or departing, line
        events.append(event)
    assert [event.cycle for event in events] == sorted(event.cycle for event in events)
    return (cols, rows), events


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the trace of a run on two wafers whose last pass is logged wavelet by wavelet."""
    folder = tmp_path_factory.mktemp("logged")
    placement = {"wafers": 2, "mesh": "3x3", "schedule": "baseline"}
    return runs.traced_run(folder, wavelets=True, prompt_ids=(1, 2, 3), new_tokens=2, **placement).path


def export(trace: Path, out: Path, wafer: int = 0, cycles: str | None = None) -> tuple[tuple[int, int], list[Event]]:
    """Export the log of a wafer; return (columns, rows) of the mesh and the events."""
    facts = runs.export(trace, "simulator-log", out, wafer_index=wafer, cycles=cycles)
    size, events = read_simulator_trace(out.read_text())
    assert facts.events == len(events)
    assert facts.wavelets == len({event.ident for event in events})
    return size, events


@pytest.mark.parametrize("wafer", [0, 1])
def test_departures_are_the_moves_of_the_trace(logged: Path, tmp_path: Path, wafer: int) -> None:
    size, events = export(logged, tmp_path / "out.log", wafer)
    with h5py.File(logged) as file:
        columns = {name: file[f"wavelets/{name}"][()].tolist() for name in file["wavelets"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = Counter(
        (row["cycle"], row["col"], row["row"], row["colour"], row["step"], "NESWR"[row["direction"]])
        for row in rows
        if row["wafer"] == wafer
    )
    found = Counter((e.cycle, e.x, e.y, e.colour, e.step, side) for e in events for side in e.departing)
    assert found == expected
    assert size == (3, 3)


@pytest.mark.parametrize("wafer", [0, 1])
def test_wavelet_arrives_one_cycle_after_its_departure_and_is_delivered(
    logged: Path, tmp_path: Path, wafer: int
) -> None:
    (cols, _), events = export(logged, tmp_path / "out.log", wafer)
    events_by_ident: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        events_by_ident[event.ident].append(event)
    for path in events_by_ident.values():
        assert len({(event.colour, event.step) for event in path}) == 1
        departures = {
            (e.cycle + 1, e.x + STEP[s][0], e.y + STEP[s][1], OPPOSITE[s])
            for e in path
            for s in e.departing
            if s != "R"
        }
        arrivals = {(e.cycle, e.x, e.y, e.landing) for e in path if e.landing in STEP}
        first_arrivals = arrivals - departures
        assert all(x == 0 and side == "W" for _, x, _, side in first_arrivals), (
            "only words from the previous wafer appear at the west edge"
        )
        assert len(first_arrivals) + sum(event.landing == "R" for event in path) == 1
        assert all(x == cols for _, x, _, _ in departures - arrivals), (
            "only words to the next wafer leave at the east edge"
        )
        for waiting in (event for event in path if event.landing == "-"):
            assert any(
                (e.x, e.y) == (waiting.x, waiting.y) and e.cycle < waiting.cycle and not e.departing for e in path
            )
        for event in path:
            if event.delivered:
                assert event.delivered == f", to_ce_from_{'q' if event.landing == '-' else 'router'}"
        assert any(event.delivered or (event.x == cols - 1 and not event.departing) for event in path)
    assert sum(bool(event.delivered) for event in events)


def test_export_of_a_cycle_range_has_the_lines_of_the_full_export(logged: Path, tmp_path: Path) -> None:
    events, lines = (export(logged, tmp_path / "a.log")[1], (tmp_path / "a.log").read_text().splitlines())
    first, last = events[20].cycle, events[60].cycle
    export(logged, tmp_path / "b.log", cycles=f"{first}-{last}")
    expected = [line for event, line in zip(events, lines[1:], strict=True) if first <= event.cycle <= last]
    assert (tmp_path / "b.log").read_text().splitlines()[1:] == expected


def test_log_of_two_words_has_the_expected_lines(tmp_path: Path) -> None:
    """A word goes east from row 1, column 0, and then into the PE and to the south; another one four cycles later."""
    export(write(tmp_path / "t.h5"), tmp_path / "out.log", wafer=1)
    common = "ctrl=0, idx=0000, data=00000000 (0 (0)), half=0, ident=000000000000000"
    lines = ["@0 dimX=5, dimY=6"]
    for number, cycle in ((1, 0), (2, 4)):
        lines += [
            f"@{cycle} P0.1 (hwtile) wavelet C5 {common}{number} landing=R departing=/E    /, step=2",
            f"@{cycle + 1} P1.1 (hwtile) wavelet C5 {common}{number} landing=W departing=/   SR/, to_ce_from_router, "
            "step=2",
            f"@{cycle + 2} P1.2 (hwtile) wavelet C5 {common}{number} landing=N departing=/     /, step=2",
        ]
    assert (tmp_path / "out.log").read_text().splitlines() == lines


def test_export_refuses_too_many_moves_and_logs_without_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = write(tmp_path / "t.h5"), tmp_path / "out.log"
    monkeypatch.setattr(router_events, "MAX_MOVES", 5)
    with pytest.raises(BadInput, match=r"--to simulator-log: 6 events, at most 5 are written; choose with --cycles"):
        export(path, out, wafer=1)
    with TraceWriter(tmp_path / "old.h5", HEADER) as trace:
        names = ("pass", "step", "cycle", "wafer", "row", "col", "colour", "direction")
        trace.append("wavelet", {name: [0] for name in names})
        trace.write_summary({})
    with pytest.raises(BadTrace, match=r"wavelets/source: does not say where all wavelets came from; make the trace"):
        export(tmp_path / "old.h5", out)
    assert not out.exists()


@pytest.mark.parametrize(("name", "value"), [("row", 6), ("col", -1), ("cycle", -5), ("direction", 9), ("source", 5)])
def test_damaged_log_is_refused(tmp_path: Path, name: str, value: int) -> None:
    path = Path(shutil.copy(write(tmp_path / "t.h5"), tmp_path / "copy.h5"))
    with h5py.File(path, "r+") as file:
        file[f"wavelets/{name}"][0] = value
    with pytest.raises(BadTrace, match=rf"wavelets/{name}: {value}, needed: 0 to \d+; make the trace again"):
        export(path, tmp_path / "out.log", wafer=1)
