"""Tests of the export of a run as a Perfetto timeline: format, steps, cycles, traffic, tokens and lanes."""

import gzip
import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inspect import runs
from tests.inspect.runs import GOLDEN, STORY, TWO_WAFERS
from tests.traces.conftest import write
from wse.errors import BadInput, BadTrace
from wse.tracing.export import chosen_passes
from wse.tracing.export.perfetto import Lanes
from wse_traces import TraceWriter
from wse_traces.reader.read import open_trace
from wse_traces.schema import CAUSES

Event = dict[str, Any]
KEYS = {
    "X": {"ph", "ts", "dur", "pid", "tid", "cat", "name", "args"},
    "C": {"ph", "ts", "pid", "name", "args"},
    "M": {"ph", "pid", "tid", "name", "args"},
}
METADATA = {
    "process_name": {"name": str},
    "thread_name": {"name": str},
    "process_sort_index": {"sort_index": int},
    "thread_sort_index": {"sort_index": int},
}


def read_trace_events(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a Perfetto file; check the format of every event and that slices do not overlap."""
    document = json.loads(data.decode("ascii"), parse_constant=_refuse_constant)
    assert document.keys() == {"displayTimeUnit", "otherData", "traceEvents"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    named: dict[str, set[Any]] = {"process_name": set(), "thread_name": set()}
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert event.keys() == KEYS[event["ph"]], event
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["args"], dict)
        place = (event["pid"], event.get("tid", 0))
        assert all(type(number) is int and number >= 0 for number in place)
        if event["ph"] == "M":
            kinds = METADATA[event["name"]]
            assert {name: type(value) for name, value in event["args"].items()} == kinds
            if event["name"] in named:
                key = place[0] if event["name"] == "process_name" else place
                assert key not in named[event["name"]], "this process or thread has two names"
                named[event["name"]].add(key)
            continue
        assert type(event["ts"]) is int, "cycles must be integers"
        assert place[0] in named["process_name"], "the name must precede the first event"
        if event["ph"] == "C":
            assert all(type(value) in (int, float) for value in event["args"].values())
            continue
        assert place in named["thread_name"]
        assert type(event["dur"]) is int
        assert event["dur"] >= 0
        slices[place].append((event["ts"], event["ts"] + event["dur"]))
    for track in slices.values():
        track.sort()
        for (_, end), (start, _) in itertools.pairwise(track):
            assert end <= start, "slices of one thread overlap"
    return document


def metadata_names(document: dict[str, Any], what: str) -> dict[Any, str]:
    """Return the names of processes by process, or of threads by (process, thread); ``what`` is the metadata event."""
    found = [event for event in document["traceEvents"] if event["ph"] == "M" and event["name"] == what]
    key = (lambda e: e["pid"]) if what == "process_name" else (lambda e: (e["pid"], e["tid"]))
    return {key(event): event["args"]["name"] for event in found}


def _refuse_constant(name: str) -> None:
    raise AssertionError(name)


def export(trace: Path, out: Path, tokens: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Export a trace; return the facts of the export and the checked content of the file."""
    facts = runs.export(trace, "perfetto", out, tokens=tokens)
    data = out.read_bytes()
    return facts, read_trace_events(gzip.decompress(data) if out.suffix == ".gz" else data)


def steps_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the slices of steps, which are those in the processes of wafers."""
    processes = metadata_names(document, "process_name")
    events = document["traceEvents"]
    return [e for e in events if e["ph"] == "X" and processes[e["pid"]].startswith("wafer")]


@pytest.mark.parametrize("name", ["story", "story-two-wafers", "sample"])
def test_steps_of_a_run_are_slices_with_their_cycles(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "sample.h5") if name == "sample" else GOLDEN / f"{name}.h5"
    facts, document = export(path, tmp_path / "t.json")
    with open_trace(path) as trace:
        steps, ops = trace.steps(), trace.texts("graph/ops/name")
        expected = Counter(zip(*(steps[k].tolist() for k in ("wafer", "start_cycle", "cycles", "op")), strict=True))
        clock = trace.header.clock_hz
    processes = metadata_names(document, "process_name")
    found = steps_in(document)
    wafers = {pid: int(process.split()[1]) for pid, process in processes.items() if process.startswith("wafer")}
    assert Counter((wafers[e["pid"]], e["ts"], e["dur"], ops.index(e["args"]["op"])) for e in found) == expected
    for event in found:
        cycles_by_cause = [event["args"].get(f"{cause}_cycles", 0) for cause in CAUSES]
        assert sum(cycles_by_cause) == event["args"]["cycles"] == event["dur"]
    assert facts.slices == sum(e["ph"] == "X" for e in document["traceEvents"])
    assert document["otherData"]["clock_hz"] == clock
    assert "1 µs in this file is 1 cycle" in document["otherData"]["time"]


def test_counters_of_link_words_and_crossing_bytes_match_the_trace(tmp_path: Path) -> None:
    path = TWO_WAFERS
    _, document = export(path, tmp_path / "t.json")
    processes = metadata_names(document, "process_name")
    counters = [e for e in document["traceEvents"] if e["ph"] == "C"]
    with open_trace(path) as trace:
        steps, crossings, passes = trace.steps(), trace.table("crossing"), trace.table("pass")
        for wafer in (0, 1):
            mine = [e for e in counters if processes[e["pid"]] == f"wafer {wafer}" and e["name"] == "words on links"]
            assert mine[-1]["args"] == {"word/cycle": 0.0}
            area = sum(a["args"]["word/cycle"] * (b["ts"] - a["ts"]) for a, b in itertools.pairwise(mine))
            has_cycles = (steps["wafer"] == wafer) & (steps["cycles"] > 0)
            assert area == pytest.approx(int(steps["hops"][has_cycles].sum()), rel=1e-6)
    crossing_bytes = [
        e for e in counters if e["name"] == "bytes to wafer 1 in a pass" and processes[e["pid"]] == "wafer 0"
    ]
    level = {e["ts"]: e["args"]["B"] for e in crossing_bytes}
    current, levels = 0.0, {}
    for cycle in sorted({*level, *passes["start_cycle"].tolist()}):
        current = levels[cycle] = level.get(cycle, current)
    for index, start in enumerate(passes["start_cycle"].tolist()):
        mine = (crossings["pass"] == index) & (crossings["src_wafer"] == 0) & (crossings["dst_wafer"] == 1)
        assert levels[start] == crossings["bytes"][mine].sum()


def test_tokens_end_with_their_pass_and_can_be_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "sample.h5")
    facts, document = export(path, tmp_path / "t.json.gz", tokens="4-6")
    assert facts.tokens == (4, 6)
    tokens = [e for e in document["traceEvents"] if e.get("cat") == "token"]
    assert [e["args"]["token"] for e in tokens] == [4, 5, 6]
    with open_trace(path) as trace:
        columns, passes, texts = trace.table("token"), trace.table("pass"), trace.token_texts()
        cycles = trace.column("schedules/cycles")
        expected = {
            (s, c)
            for t in (4, 5, 6)
            for s, c in zip(*(trace.steps(t)[k].tolist() for k in ("start_cycle", "cycles")), strict=True)
        }
    for event in tokens:
        row = event["args"]["token"]
        pass_index = columns["pass"][row]
        assert event["ts"] + event["dur"] == passes["start_cycle"][pass_index] + cycles[passes["schedule"][pass_index]]
        assert event["dur"] == columns["cycles"][row]
        assert event["name"] == repr(texts[row])
    assert {(e["ts"], e["dur"]) for e in steps_in(document)} == expected


def test_passes_of_generated_tokens_are_preferred_if_there_are_too_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "sample.h5")
    monkeypatch.setattr(chosen_passes, "MAX_SLICES", 14)
    facts, document = export(path, tmp_path / "t.json")
    assert facts.passes == 2
    assert facts.left_out_passes == 7
    assert len(steps_in(document)) == 5 + 5
    assert [e["name"] for e in document["traceEvents"] if e.get("cat") == "pass"] == ["decode 1", "decode 2"]
    monkeypatch.setattr(chosen_passes, "MAX_SLICES", 4)
    with pytest.raises(BadTrace, match="a pass of 5 steps, at most 4 are written; use --to parquet"):
        export(path, tmp_path / "u.json")
    with h5py.File(path, "r+") as file:
        file["schedules/phase"][...] = 0
    monkeypatch.setattr(chosen_passes, "MAX_SLICES", 14)
    facts, document = export(path, tmp_path / "t.json")
    assert [e["name"] for e in document["traceEvents"] if e.get("cat") == "pass"] == ["prefill 0", "prefill 1"]
    with pytest.raises(BadInput, match="--tokens 3-6: 23 steps, at most 14 are written; give fewer tokens"):
        export(path, tmp_path / "u.json", tokens="3-6")
    monkeypatch.setattr(chosen_passes, "MAX_SLICES", 3)
    with pytest.raises(BadTrace, match="a pass of 8 steps, at most 3 are written; use --to parquet"):
        export(path, tmp_path / "u.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sample.h5", "t.json"]


def test_export_of_an_interrupted_run_has_the_finished_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    whole = export(write(tmp_path / "whole.h5"), tmp_path / "w.json")[1]
    monkeypatch.setattr(TraceWriter, "write_summary", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "t.h5")
    facts, part = export(tmp_path / "t.h5.partial", tmp_path / "p.json")
    assert facts.incomplete
    assert part["otherData"].pop("complete") is False
    assert whole["otherData"].pop("complete") is True
    assert part == whole


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("passes/schedule", 99),
        ("passes/start_cycle", -1),
        ("schedules/cycles", 2**53),
        ("steps/start_cycle", -(2**63)),
        ("steps/cycles", 2**60),
        ("steps/hops", -5),
        ("shifts/words", 2**60),
        ("tokens/cycles", 2**60),
        ("crossings/bytes", -1),
        ("crossings/src_wafer", -7),
        ("crossings/dst_wafer", 2),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path: Path, path: str, value: int) -> None:
    trace = write(tmp_path / "t.h5")
    with h5py.File(trace, "r+") as file:
        file[path][-1] = value
    with pytest.raises(BadTrace, match=rf"t.h5: {path}: {value}, which is out of range; make the trace again"):
        export(trace, tmp_path / "t.json")
    assert [each.name for each in tmp_path.iterdir()] == ["t.h5"]


def test_prompt_tokens_of_a_pass_are_one_slice_per_user(tmp_path: Path) -> None:
    document = export(STORY, tmp_path / "t.json")[1]
    slices = [e for e in document["traceEvents"] if e.get("cat") == "prompt"]
    with open_trace(STORY) as trace:
        tokens, texts, passes = trace.table("token"), trace.token_bytes(), trace.table("pass")
        cycles = trace.column("schedules/cycles")
    assert sum(e["args"]["last_token"] - e["args"]["first_token"] + 1 for e in slices) == tokens["is_prompt"].sum()
    for event in slices:
        rows = range(event["args"]["first_token"], event["args"]["last_token"] + 1)
        (pass_index,) = {int(tokens["pass"][row]) for row in rows}
        assert (event["ts"], event["dur"]) == (
            passes["start_cycle"][pass_index],
            cycles[passes["schedule"][pass_index]],
        )
        assert event["args"]["text"].encode() == b"".join(texts[row] for row in rows)


SLICES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=40).map(sorted)


@given(SLICES)
def test_lanes_have_no_overlapping_slices_and_are_as_few_as_possible(slices: list[tuple[int, int]]) -> None:
    lanes, placed = Lanes(), {}
    for start, cycles in slices:
        placed.setdefault(lanes.place(start, start + cycles), []).append((start, start + cycles))
    for lane in placed.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(lane))
    at_once = [sum(s <= cycle < s + n for s, n in slices) for cycle in range(40)]
    if all(cycles for _, cycles in slices):
        assert len(placed) == max(at_once)
