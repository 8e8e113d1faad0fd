"""``wse compare`` as it is called: tables, files, escaped names, and what is refused on one line."""

from __future__ import annotations

import csv
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse, files_below
from tests.models.helpers import write_config, write_model
from wse.studies.compare.plan.result import COLUMNS as PLANNED_COLUMNS
from wse.tracing.query.two_traces.comparison_row import COLUMNS

SMALL = ("--mesh", "6x5", "--prompt-len", "5", "--new-tokens", "9", "--schedule", "baseline")
HOSTILE = "<script>alert(1)<&script> $\\frac{"
"""A name that would be a tag in a page and mathematics in a plot."""
GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A model with a name that tries."""
    folder = tmp_path / HOSTILE
    folder.mkdir()
    write_model(folder)
    write_config(folder)
    return folder


class Page(HTMLParser):
    """The tags of a page, checked to close, and its text."""

    VOID = frozenset(("meta", "link"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        assert not any(name.startswith("on") for name in values)
        assert values.get("href", "data:,") == "data:,"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def is_png(data: bytes) -> bool:
    """Whether all chunks are whole and the image has more than one colour."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, kinds, pixels = 8, [], b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        pixels += body if kind == b"IDAT" else b""
        kinds.append(kind)
        at += 12 + length
    return kinds[0] == b"IHDR" and kinds[-1] == b"IEND" and len(set(zlib.decompress(pixels))) > 10


def test_rows_as_json_csv_plot_and_page_with_a_hostile_name(wse: Wse, hostile: Path, empty: Path) -> None:
    files = ("--csv", "c.csv", "--png", "c.png", "--html", "c.html")
    outcome = wse("compare", hostile, *SMALL, "--wafers", "1,2,3", "--mapping", "region", *files, "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    fastest = [row for row in report["rows"] if row.get("objective") != "throughput"]
    assert [row["wafers"] for row in fastest] == [1, 2, 2, 2, 3]
    assert "--wafers 3" in fastest[-1]["reason"]
    with (empty / "c.csv").open(newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert set(read[0]) <= set(COLUMNS)
    for row, line in zip(report["rows"], read, strict=True):
        told = {name: text for name, text in line.items() if text}
        told["reason"] = (
            told["reason"].removeprefix("'") if "reason" in told else ""
        )  # it begins with an option's dashes
        assert told == {"reason": "", **{n: _text(v) for n, v in row.items() if n in COLUMNS}}
    assert is_png((empty / "c.png").read_bytes())
    page = Page((empty / "c.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 2, "the data and the script of the page itself"
    assert "img" not in page.tags
    assert HOSTILE in page.text
    assert fastest[-1]["reason"] in page.text


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def test_what_is_printed_fits_the_terminal_and_says_what_limits(wse: Wse, tiny: Path) -> None:
    outcome = wse("compare", tiny, *SMALL, "--wafers", "1,2,3", "--mapping", "region,pipeline")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) <= 26
    assert max(map(len, lines)) <= 80
    assert "…" not in outcome.out
    assert "one user is fastest on 1 wafer (" in outcome.out.partition("\nThe best on each number of wafers")[0]
    assert {int(row) for row in re.findall(r"^ +(\d+) +(?:region|pipeline) ", outcome.out, re.MULTILINE)} == {1, 2}
    assert "region on 3, pipeline on 3" in outcome.out
    detail = wse("compare", tiny, *SMALL, "--wafers", "1,2,3", "--mapping", "region,pipeline", "--detail").out
    tables, _, limits = detail.partition("\nSpeed")[2].partition("\nLimits")
    assert len(re.findall(r"^ +[12] +.*(?:region|pipeline) ", tables, re.MULTILINE)) == 3 * 12
    assert " of a token's cycles are " in " ".join(limits.split())


def test_a_question_with_its_verdict(wse: Wse, tiny: Path, empty: Path) -> None:
    outcome = wse("compare", tiny, *SMALL, "--question", "sram-or-streaming", "--html", "c.html")
    assert outcome.code == 0, outcome.err
    verdict = " ".join(outcome.out.partition("\n  ")[2].partition(" streamed")[0].split())
    assert verdict.startswith("Weights in SRAM on 1 wafer (region) give one user ")
    assert verdict in " ".join(Page((empty / "c.html").read_text(encoding="utf-8")).text.split())


def test_two_traces(wse: Wse, empty: Path) -> None:
    traces = (GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5")
    outcome = wse("compare", *traces, "--csv", "t.csv", "--png", "t.png", "--html", "t.html")
    assert outcome.code == 0, outcome.err
    assert "What changed in a generated token" in outcome.out
    assert is_png((empty / "t.png").read_bytes())
    page = Page((empty / "t.html").read_text(encoding="utf-8"))
    assert "What changed in reading the prompts" in page.text
    with (empty / "t.csv").open(newline="", encoding="utf-8") as file:
        assert [row["wafers"] for row in csv.DictReader(file)] == ["1", "2"]


REFUSED: list[tuple[list[str], list[str]]] = [
    (["MODEL", "--mapping", "region,regin"], ["--mapping", "'regin'", "did you mean 'region'?"]),
    (["MODEL", "--mapping", "region,"], ["--mapping 'region,'", "separated by commas"]),
    (["MODEL", "--wafers", "1,auto"], ["--wafers '1,auto'", "auto cannot be in a list"]),
    (["MODEL", "--wafers", "1,-2"], ["--wafers -2", "at least 1"]),
    (["MODEL", "--wafers", "1,2x"], ["--wafers '2x'", "whole number"]),
    (["MODEL", "--wafers", "1001"], ["--wafers 1001", "at most 1,000"]),
    (["MODEL", "--link-bandwidth", "8,nan"], ["--link-bandwidth 'nan'", "such as 150GB/s"]),
    (["MODEL", "--link-bandwidth", "-8"], ["--link-bandwidth -8", "0.1 to 10000 GB/s"]),
    (["MODEL", "--link-bandwidth", "8;32"], ["--link-bandwidth '8;32'", "such as 150GB/s"]),
    (["MODEL", "--link-latency", "inf"], ["--link-latency 'inf'", "such as 5us"]),
    (["MODEL", "--link-latency", "5s"], ["--link-latency 5e+06", "0 to 10000 µs"]),
    (["MODEL", "--link-latency", "1e300us"], ["--link-latency 1e+300", "0 to 10000 µs"]),
    (["MODEL", "--replicas", "0"], ["--replicas 0", "at least 1"]),
    (["MODEL", "--new-tokens", "1"], ["--new-tokens 1", "at least 2"]),
    (["MODEL", "--question", "one-or-many"], ["--question", "'one-or-many'", "did you mean 'one-wafer-or-many'?"]),
    (["MODEL", "--csv", "no/such/c.csv"], ["--csv no/such/c.csv", "is not a folder"]),
    (["MODEL", "--png", "."], ["--png '.'", "is a folder"]),
    (["MODEL", "--png", "x.pdf"], ["--png x.pdf", "a PNG image, which ends in .png"]),
    (["MODEL", "--html", ""], ["--html ''", "the path is empty"]),
    (["MODEL", "--prompt-len", "3", "--new-tokens", "3", "--economics", "none.toml"], ["none.toml", "does not exist"]),
    (["./missing"], ["'./missing'", "no such file or folder"]),
    (["none.h5", "none.h5"], ["none.h5", "no such file"]),
    (["none.h5"], ["none.h5: is one trace", "add a second trace"]),
    (["none.h5", "MODEL"], ["is not a trace", "'none.h5' is one"]),
    (["MODEL", "none.h5"], ["is not a trace", "'none.h5' is one"]),
    (["MODEL", "MODEL"], ["give one model, or two files that wse run wrote"]),
    (["a.h5", "b.h5", "--wafers", "2"], ["--wafers", "applies to models, not to traces"]),
    (["a.h5", "b.h5", "c.h5"], ["3 names", "one model, or two traces"]),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(a)[:40] for a, _ in REFUSED])
def test_what_is_refused(wse: Wse, tiny: Path, tmp_path: Path, arguments: list[str], says: list[str]) -> None:
    before = files_below(tmp_path)
    line = wse("compare", *(str(tiny) if a == "MODEL" else a for a in arguments)).refusal()
    assert files_below(tmp_path) == before
    assert [part for part in says if part not in line] == [], line


def test_a_file_that_is_no_trace(wse: Wse, empty: Path) -> None:
    (empty / "a.h5").write_bytes(b"not HDF5" * 100)
    line = wse("compare", "a.h5", GOLDEN / "story.h5").refusal()
    assert "a.h5" in line


def test_a_trace_that_is_compared_is_never_written_over(wse: Wse, empty: Path) -> None:
    trace = empty / "a.h5"
    trace.write_bytes((GOLDEN / "story.h5").read_bytes())
    for option in ("--csv", "--png", "--html"):
        line = wse("compare", "a.h5", GOLDEN / "story.h5", option, "./a.h5").refusal()
        assert line == f"wse: {option} ./a.h5: is one of the files that are read; give another name"
    assert trace.read_bytes() == (GOLDEN / "story.h5").read_bytes()


SMALL_STORY = ("compare", "story", "--mesh", "24x24", "--wafers", "1", "--mapping", "region")


def test_rows_that_keep_targets_as_markdown(wse: Wse, empty: Path) -> None:
    command = (*SMALL_STORY, "--lengths", "8/8,16/4")
    outcome = wse(*command, "--tpot", "1ms", "--markdown", "--csv", "t.csv")
    assert outcome.code == 0
    assert "| lengths | machine | type | meets | users |" in outcome.out
    assert "\n- USD/Mtok: price of all machines per million output tokens" in outcome.out
    with (empty / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["prompt_len"], row["new_tokens"], row["keeps"]) for row in rows} == {
        ("8", "8", "True"),
        ("16", "4", "True"),
    }
    assert tuple(rows[0]) == tuple(one for one in PLANNED_COLUMNS if not one.startswith("link_"))  # none was given
    for option in ("--html", "--png"):
        refusal = wse(*command, option, f"t.{option[2:]}").refusal()
        assert f"{option}: draws a whole comparison, not ranked rows; leave it out" in refusal


def test_detail_of_machines_for_users_has_a_row_for_each_mapping_and_their_room(wse: Wse) -> None:
    command = ("compare", "story", "--mesh", "16x16", "--wafers", "2", "--schedule", "baseline", "--users", "8")
    command += ("--prompt-len", "8", "--new-tokens", "8")
    (best,) = json.loads(wse(*command, "--json").out)["rows"]
    rows = json.loads(wse(*command, "--detail", "--json").out)["rows"]
    assert {row["software"] for row in rows} > {best["software"]}
    assert best in [{**row, "pareto": best["pareto"]} for row in rows]
    table = wse(*command, "--detail").out.partition("Room, rates and energy\n")[2].splitlines()
    assert table[0].split() == ["machine", "room", "a", "pass", "TPOT", "tok/s", "J/token"]
    shown = [line for line in table[1:] if " wse3, " in line]
    assert [f"{row['max_users']:,}" in line for row, line in zip(rows, shown, strict=True)] == [True] * len(rows)


def test_options_that_a_comparison_would_ignore_are_refused(wse: Wse) -> None:
    for options in ((), ("--users", "8")):
        assert (
            "--defects-seed 3: draws the dead PEs of --defects RATE"
            in wse(*SMALL_STORY, *options, "--defects-seed", "3").refusal()
        )
        assert "--network" in wse(*SMALL_STORY, *options, "--network", "n.toml").refusal()


def test_machines_for_users_are_printed_with_the_verdict_first(wse: Wse) -> None:
    command = (*SMALL_STORY, "--prompt-len", "8", "--new-tokens", "8", "--users", "3000", "--tpot", "1ms")
    text = wse(*command).out
    report = json.loads(wse(*command, "--json").out)
    assert report["users"] == 3000
    assert report["targets"] == {"tpot_s": 1e-3}
    (row,) = report["rows"]
    assert row["replicas"] > 1
    assert row["tpot_s"] <= 1e-3
    (sentence,) = report["verdict"]
    assert sentence in " ".join(text.split())
    assert (
        text.index("3,000 users of story as float16, 8 + 8 tokens")
        < text.index("serves 3,000 users")
        < text.index("Best first")
    )
    assert f"{row['replicas']} x 1 wse3, region" in text.partition("Best first")[2]
