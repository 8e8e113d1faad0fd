"""Tests of commands with few options: wafers, explore, export, pattern, view; and of two options of others."""

import json
import re
import webbrowser
from pathlib import Path

import pytest
from small_files import small_files

from tests.cli.conftest import Wse, files_below
from tests.traces.conftest import HEADER
from wse.cli import main
from wse.studies.options.mapping_file import load_mapping
from wse.tracing.page.page import view_page
from wse_traces import TraceWriter


def test_wafers_marks_announced_presets(wse: Wse) -> None:
    text = wse("wafers").out
    assert [line.split()[0] for line in text.splitlines() if " * " in line and "x" in line] == ["cs4"]
    assert json.loads(wse("wafers", "--json").out)["announced"] == ["cs4"]
    for name, announced in (("CS4", True), ("wse2", False), ("wse3", False)):
        facts = json.loads(wse("wafers", name, "--json").out)
        assert (facts["name"], facts["announced"]) == (name.lower(), announced)


def test_explore_writes_the_page_next_to_its_table(wse: Wse, empty: Path) -> None:
    (empty / "t.csv").write_text("a,b\n1,2\n3,4\n")
    outcome = wse("explore", "t.csv", "--json")
    assert outcome.code == 0
    size = (empty / "t.html").stat().st_size
    assert json.loads(outcome.out) == {"table": "t.csv", "page": "t.html", "page_bytes": size, "rows": 2, "columns": 2}
    assert "t.html" in wse("explore", "t.csv", "-o", "t.html").out
    assert files_below(empty) == {"t.csv", "t.html"}


GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"


def test_export_of_a_trace_without_records_says_what_is_missing(wse: Wse, empty: Path) -> None:
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


@pytest.mark.parametrize("to", ["perfetto", "csv"])
def test_export_to_a_full_disk_leaves_the_old_files(wse: Wse, empty: Path, to: str) -> None:
    """A limit on file sizes imitates a full disk: writing fails in the middle of a file."""
    assert wse("export", GOLDEN / "story.h5", "--to", to, "-o", "out").code == 0
    before = {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()}
    with small_files(2000):
        line = wse("export", GOLDEN / "story.h5", "--to", to, "-o", "out").refusal()
    assert re.fullmatch(r"wse: -o out: cannot be written \(.*File too large.*\); give another name", line)
    assert {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()} == before


WRONG_PATTERN = """
from wse_mappings.schedule import uniform_schedule

def mine(length, lines, arrival):
    return uniform_schedule("mine", length, lines, [(1, 0, arrival)], 1)
"""


def test_pattern_with_a_wrong_sum_exits_with_status_2(wse: Wse, empty: Path) -> None:
    Path("mine.py").write_text(WRONG_PATTERN, encoding="utf-8")
    outcome = wse("pattern", "chain,mine.py:mine", "--pes", "8", "--words", "4,8", "--json")
    assert outcome.code == 2
    assert outcome.err == (
        "wse: mine.py:mine on 8 PEs: the sum on PE 0 lacks the words of PE 2, 3, 4, 5 and 2 more "
        "(and 1 more cases with a fault)\n"
    )
    cases = json.loads(outcome.out)["cases"]
    assert [("fault" in case, "cycles" in case) for case in cases] == [(False, True), (True, False)] * 2


STORY, STORY_ON_TWO_WAFERS = GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5"


def test_view_writes_a_page_and_reports_its_size(wse: Wse, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", pytest.fail)  # only --open opens a browser
    outcome = wse("view", STORY, "-o", "report.html")
    assert outcome.code == 0, outcome.err
    page = (empty / "report.html").read_bytes()
    assert page.startswith(b"<!doctype html>")
    assert outcome.out == f"report.html: {len(page) / 1e6:.2f} MB; open it in a browser\n"
    assert outcome.err == ""
    outcome = wse("view", STORY, STORY_ON_TWO_WAFERS, "--json")
    assert outcome.code == 0, outcome.err
    size = (empty / "wse-view.html").stat().st_size
    assert json.loads(outcome.out) == {
        "page": "wse-view.html",
        "bytes": size,
        "traces": [str(STORY), str(STORY_ON_TWO_WAFERS)],
    }


def test_view_writes_to_standard_output(empty: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["view", str(STORY), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == (view_page([STORY]), b"")
    assert files_below(empty) == set()


def test_view_opens_a_browser_with_the_option(wse: Wse, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert wse("view", STORY, "-o", "a b.html", "--open").code == 0
    assert opened == [(empty / "a b.html").resolve().as_uri()]


FLAGS = ("--mesh=24x24", "--mapping=region", "--schedule=baseline", "--prompt-len=16", "--new-tokens=16")


def test_what_if_prints_a_table_and_writes_a_picture(wse: Wse, empty: Path) -> None:
    outcome = wse("estimate", "story", *FLAGS, "--what-if", "clock=x2,latency=x0.5", "--png", "t.png")
    assert outcome.code == 0
    assert "clock x2" in outcome.out
    assert "875 MHz → 1.75 GHz" in outcome.out
    assert (empty / "t.png").read_bytes().startswith(b"\x89PNG")
    printed = json.loads(wse("estimate", "story", *FLAGS, "--what-if", "clock=x2", "--json").out)
    assert printed["changes"][0]["factors"]["tokens_per_s_per_user"] == pytest.approx(2)


@pytest.mark.parametrize("command", ["compile", "estimate"])
def test_written_mapping_file_lists_the_stages(wse: Wse, tiny: Path, empty: Path, command: str) -> None:
    placed = ("--mesh=8x8", "--mapping=pipeline", "--region=4x4", "--schedule=baseline")
    outcome = wse(command, tiny, *placed, "--prompt-len=8", "--new-tokens=8", "--write-mapping=r.toml", "--json")
    assert outcome.code == 0, outcome.err
    stages = json.loads(outcome.out)["system"]["stages"]
    assert len(stages) > 1
    listed = [region.rect for region in load_mapping(empty / "r.toml").listed]
    assert [(rect.rows, rect.cols) for rect in listed] == [(stage["rows"], stage["cols"]) for stage in stages]
