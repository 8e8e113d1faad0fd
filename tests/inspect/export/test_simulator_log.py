"""Wavelets in the grammar of the vendor's simulator: each can be followed from the PE that sends it to its end."""

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
    """What a wavelet does at a router."""

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
    """Columns and rows of the mesh, and the events. Every line must be one of the two that are known here."""
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
    """A run on two wafers with its last pass logged."""
    folder = tmp_path_factory.mktemp("logged")
    placed = {"wafers": 2, "mesh": "3x3", "schedule": "baseline"}
    return runs.traced_run(folder, wavelets=True, prompt_ids=(1, 2, 3), new_tokens=2, **placed).path


def export(trace: Path, out: Path, wafer: int = 0, cycles: str | None = None) -> tuple[tuple[int, int], list[Event]]:
    facts = runs.export(trace, "simulator-log", out, wafer_index=wafer, cycles=cycles)
    size, events = read_simulator_trace(out.read_text())
    assert facts.events == len(events)
    assert facts.wavelets == len({event.ident for event in events})
    return size, events


@pytest.mark.parametrize("wafer", [0, 1])
def test_every_move_of_the_log_is_a_departure(logged: Path, tmp_path: Path, wafer: int) -> None:
    size, events = export(logged, tmp_path / "out.log", wafer)
    with h5py.File(logged) as file:
        columns = {name: file[f"wavelets/{name}"][()].tolist() for name in file["wavelets"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    wanted = Counter(
        (row["cycle"], row["col"], row["row"], row["colour"], row["step"], "NESWR"[row["direction"]])
        for row in rows
        if row["wafer"] == wafer
    )
    found = Counter((e.cycle, e.x, e.y, e.colour, e.step, side) for e in events for side in e.departing)
    assert found == wanted
    assert size == (3, 3)


@pytest.mark.parametrize("wafer", [0, 1])
def test_wavelet_comes_where_it_went_a_cycle_before_and_is_taken(logged: Path, tmp_path: Path, wafer: int) -> None:
    (cols, _), events = export(logged, tmp_path / "out.log", wafer)
    of: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of[event.ident].append(event)
    for path in of.values():
        assert len({(event.colour, event.step) for event in path}) == 1
        left = {
            (e.cycle + 1, e.x + STEP[s][0], e.y + STEP[s][1], OPPOSITE[s])
            for e in path
            for s in e.departing
            if s != "R"
        }
        came = {(e.cycle, e.x, e.y, e.landing) for e in path if e.landing in STEP}
        begun = came - left
        assert all(x == 0 and side == "W" for _, x, _, side in begun), "only from the wafer before"
        assert len(begun) + sum(event.landing == "R" for event in path) == 1
        assert all(x == cols for _, x, _, _ in left - came), "only to the wafer behind"
        for waited in (event for event in path if event.landing == "-"):
            assert any((e.x, e.y) == (waited.x, waited.y) and e.cycle < waited.cycle and not e.departing for e in path)
        for event in path:
            if event.delivered:
                assert event.delivered == f", to_ce_from_{'q' if event.landing == '-' else 'router'}"
        assert any(event.delivered or (event.x == cols - 1 and not event.departing) for event in path)
    assert sum(bool(event.delivered) for event in events)


def test_some_cycles_have_the_lines_that_they_have_in_the_whole(logged: Path, tmp_path: Path) -> None:
    whole = (export(logged, tmp_path / "a.log")[1], (tmp_path / "a.log").read_text().splitlines())
    first, last = whole[0][20].cycle, whole[0][60].cycle
    export(logged, tmp_path / "b.log", cycles=f"{first}-{last}")
    wanted = [line for event, line in zip(whole[0], whole[1][1:], strict=True) if first <= event.cycle <= last]
    assert (tmp_path / "b.log").read_text().splitlines()[1:] == wanted


def test_two_words_of_a_small_log_by_hand(tmp_path: Path) -> None:
    """East from (row 1, col 0), then into the PE and on south; four cycles later again."""
    export(write(tmp_path / "t.h5"), tmp_path / "out.log", wafer=1)
    said = "ctrl=0, idx=0000, data=00000000 (0 (0)), half=0, ident=000000000000000"
    lines = ["@0 dimX=5, dimY=6"]
    for number, cycle in ((1, 0), (2, 4)):
        lines += [
            f"@{cycle} P0.1 (hwtile) wavelet C5 {said}{number} landing=R departing=/E    /, step=2",
            f"@{cycle + 1} P1.1 (hwtile) wavelet C5 {said}{number} landing=W departing=/   SR/, to_ce_from_router, "
            "step=2",
            f"@{cycle + 2} P1.2 (hwtile) wavelet C5 {said}{number} landing=N departing=/     /, step=2",
        ]
    assert (tmp_path / "out.log").read_text().splitlines() == lines


def test_what_is_not_logged_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_damaged_log_is_told(tmp_path: Path, name: str, value: int) -> None:
    path = Path(shutil.copy(write(tmp_path / "t.h5"), tmp_path / "copy.h5"))
    with h5py.File(path, "r+") as file:
        file[f"wavelets/{name}"][0] = value
    with pytest.raises(BadTrace, match=rf"wavelets/{name}: {value}, needed: 0 to \d+; make the trace again"):
        export(path, tmp_path / "out.log", wafer=1)
