"""``wse view`` on the command line: a page, one line about it, and where it goes."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from tests.cli.conftest import Wse, files_below
from wse.cli import main
from wse.tracing.page.page import view_page

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
STORY, TWO = GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5"


def test_page_is_written_and_told_in_one_line_or_as_json(wse: Wse, empty: Path) -> None:
    outcome = wse("view", STORY, "-o", "report.html")
    assert outcome.code == 0, outcome.err
    page = (empty / "report.html").read_bytes()
    assert page.startswith(b"<!doctype html>")
    assert outcome.out == f"report.html: {len(page) / 1e6:.2f} MB; open it in a browser\n"
    assert outcome.err == ""
    outcome = wse("view", STORY, TWO, "--json")
    assert outcome.code == 0, outcome.err
    size = (empty / "wse-view.html").stat().st_size
    assert json.loads(outcome.out) == {"page": "wse-view.html", "bytes": size, "traces": [str(STORY), str(TWO)]}


def test_page_goes_to_standard_output(empty: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["view", str(STORY), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == (view_page([STORY]), b"")
    assert files_below(empty) == set()


def test_page_is_opened_in_a_browser_where_that_is_asked_for(
    wse: Wse, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert wse("view", STORY, "-o", "a b.html").code == 0
    assert opened == []
    assert wse("view", STORY, "-o", "a b.html", "--open").code == 0
    assert opened == [(empty / "a b.html").resolve().as_uri()]
