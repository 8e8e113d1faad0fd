"""``wse export``: its examples, and one line for everything that cannot be."""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import shlex
import shutil
from pathlib import Path

import h5py
import pytest
from tiers import slow_but

from tests.cli.conftest import Wse, files_below
from tests.traces.conftest import HEADER
from wse_traces import TraceWriter

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"


@pytest.fixture
def story(empty: Path) -> Path:
    return Path(shutil.copy(GOLDEN / "story.h5", empty / "wse-run.h5"))


@pytest.mark.slow
def test_the_examples_of_the_help_work(wse: Wse, story: Path, empty: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    with TraceWriter(empty / "wavelets.h5", HEADER) as trace:
        names = ("pass", "step", "cycle", "wafer", "row", "col", "colour", "direction")
        trace.append("wavelet", {name: [1] if name == "direction" else [0] for name in names})
        trace.append("wavelet_source", {"source": [4]})
        trace.write_summary({})
    examples = re.findall(r"^ {4}wse (export.*)$", wse("export", "--help").out, re.MULTILINE)
    assert len(examples) >= 6
    for example in examples:
        outcome = wse(*shlex.split(example))
        assert outcome.code == 0, (example, outcome.err)
        assert "written" in outcome.out
    assert {"wse-run.perfetto.json", "tokens.json.gz", "wse-run-png", "wse-run-csv"} <= files_below(empty)


def test_json_says_what_was_written(wse: Wse, story: Path) -> None:
    said = json.loads(wse("export", story.name, "--to", "csv", "--what", "token", "-o", "there", "--json").out)
    assert said == {
        "trace": "wse-run.h5",
        "to": "csv",
        "out": "there",
        "files": ["token.csv", "columns.csv", "run.json"],
        "rows": 18,
    }


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--to vcd", "--to: unknown format 'vcd': known: csv, parquet, perfetto, png"),
        ("--to csv --tokens 0-3", "--tokens: applies to --to perfetto, not to csv; leave it out"),
        ("--to perfetto --what step", "--what: applies to --to csv, parquet, png, not to perfetto; leave it out"),
        ("--to csv --wafer-index 1", "--wafer-index: applies to --to simulator-log, not to csv; leave it out"),
        ("--to csv --cycles 1-2", "--cycles: applies to --to simulator-log, not to csv; leave it out"),
        ("--to simulator-log", "wse-run.h5: has no log of wavelets; make one: wse run --wavelets --trace FILE"),
        ("--to png --planes", "--planes: applies to --to csv, parquet, not to png; leave it out"),
        (
            "--to csv --planes --what step",
            "--planes: name the planes in --what instead: sram_bytes_per_pe, links_words",
        ),
        ("--to png --what heat", "--what: unknown picture 'heat': did you mean 'east'? known: busy, east, links"),
        ("--to csv --what stepp", "--what: unknown table 'stepp': did you mean 'step'? known: attention, buffer"),
        ("--to csv --what wavelet", "--what wavelet: wse-run.h5 has no rows of this table; leave it out"),
        ("--to perfetto --tokens 3", "--tokens '3': give the first and the last token as FROM-TO, such as 0-15"),
        ("--to perfetto --tokens 5-3", "--tokens 5-3: it ends before it begins; give the smaller token first"),
        ("--to perfetto --tokens 18-20", "--tokens 18-20: wse-run.h5 has the tokens 0 to 17; give some of those"),
        ("--to perfetto -o ''", "-o '': the path is empty; give the name of a file"),
        ("--to csv -o ''", "-o '': the path is empty; give the name of a folder"),
        ("--to perfetto -o .", "-o '.': is a folder; give a file name"),
        ("--to perfetto -o wse-run.h5", "-o wse-run.h5: is one of the files that are read; give another name"),
        ("--to perfetto -o no/x.json", "-o no/x.json: no is not a folder; make it, or give another name"),
        ("--to png -o no/x", "-o no/x: no is not a folder; make it, or give another name"),
        ("--to png -o map.png", "-o map.png: png makes several files; give the name of a folder for them"),
        ("--to csv -o wse-run.h5", "-o wse-run.h5: is a file; give the name of a folder, for csv makes several files"),
        ("--to csv -o .", "-o .: the folder holds wse-run.h5, which no export to csv made; give another name"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(
    wse: Wse, story: Path, empty: Path, arguments: str, line: str
) -> None:
    assert line in wse("export", story.name, *shlex.split(arguments)).refusal()
    assert files_below(empty) == {"wse-run.h5"}


def test_what_is_no_trace_is_told(wse: Wse, empty: Path) -> None:
    (empty / "x.h5").write_bytes(b"no")
    for name, told in (("x.h5", "not"), ("missing.h5", "missing.h5"), (".", "is a folder")):
        for to in ("perfetto", "csv", "png"):
            assert told in wse("export", name, "--to", to, "-o", "out").refusal()
    assert files_below(empty) == {"x.h5"}
    line = wse("export", "missing.h5", "--to", "perfetto", "-o", "x.h5").refusal()
    assert line.startswith("wse: missing.h5: no such file; ")


@pytest.mark.parametrize("to", slow_but(["perfetto", "csv", "parquet"], "perfetto", "csv"))
def test_a_damaged_column_is_told_as_of_the_trace(wse: Wse, story: Path, empty: Path, to: str) -> None:
    if to == "parquet":
        pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")  # whose first import takes a second
    with h5py.File(story, "r+") as file:
        del file["steps/cycles"]
    line = wse("export", story.name, "--to", to, "-o", "out").refusal()
    assert line.startswith("wse: wse-run.h5: steps/cycles: missing")
    assert files_below(empty) == {"wse-run.h5"}


def test_without_pyarrow_parquet_says_what_to_install(wse: Wse, story: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    line = wse("export", story.name, "--to", "parquet").refusal()
    assert line == "wse: --to parquet: needs pyarrow: pip install 'wse[parquet]', or take --to csv"


def test_a_run_that_was_stopped_before_anything_was_recorded(wse: Wse, empty: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceWriter(empty / "run.h5", HEADER):
        raise KeyboardInterrupt
    trace = "run.h5.partial"
    line = wse("export", trace, "--to", "png", "--what", "busy,links").refusal()
    assert line == (
        f"wse: --what busy, links: not recorded in {trace}, whose run was not completed; choose another, or run again "
        "to the end"
    )
    assert "nothing to draw in run.h5.partial" in wse("export", trace, "--to", "png").refusal()
    line = wse("export", trace, "--to", "csv").refusal()
    assert line == f"wse: {trace}: nothing is recorded yet; let the run go on, or make the trace again"
    assert "of a run that was not completed" in wse("export", trace, "--to", "perfetto").out
    assert "run.perfetto.json" in files_below(empty)


@pytest.mark.parametrize("to", slow_but(["perfetto", "csv", "parquet", "png"], "perfetto", "csv"))
def test_a_full_disk_leaves_what_was_there(wse: Wse, story: Path, empty: Path, to: str) -> None:
    """A limit on the size of files stands in for a full disk: writes fail part of the way."""
    if to == "parquet" and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    assert wse("export", story.name, "--to", to, "-o", "out").code == 0
    before = {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        line = wse("export", story.name, "--to", to, "-o", "out").refusal()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert re.fullmatch(r"wse: -o out: cannot be written \(.*File too large.*\); give another name", line)
    assert {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()} == before


def test_an_export_takes_the_place_of_an_older_one(wse: Wse, story: Path, empty: Path) -> None:
    wse("export", story.name, "--to", "csv", "-o", "out")
    wse("export", story.name, "--to", "csv", "-o", "out", "--what", "token")
    assert {p.name for p in (empty / "out").iterdir()} == {"token.csv", "columns.csv", "run.json"}
