"""The pages of docs/reference are what options, result classes and signatures generate."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import wse
from wse import api, errors
from wse.reference.json_keys import COMMANDS
from wse.reference.pages import PAGES
from wse.reference.stub import stub

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run: python -m wse.reference docs/reference"


def test_all_pages_are_written_and_no_other_is_there(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "wse.reference", tmp_path], check=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_the_stub_is_current() -> None:
    written = Path(wse.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert written == stub(), "run: python -m wse.reference.stub wse/__init__.pyi"


def test_the_library_has_its_functions_results_and_errors_on_a_page() -> None:
    page = PAGES["python.md"]()
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    functions = {f"wse.{name}" for name in wse.__all__ if hasattr(api, name)}
    assert set(headings) == functions | {result.__name__ for result in COMMANDS.values()} | {"Trace"}
    described = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(re.findall(r"[├└]── (\w+)", page)) == described - {"WseError", "WseBug"}


@pytest.mark.parametrize("anchor", re.findall(r"json\.md#([\w-]+)", PAGES["python.md"]()))
def test_a_result_leads_to_its_keys(anchor: str) -> None:
    titles = re.findall(r"^## (.*)$", PAGES["json.md"](), re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-") for title in titles}
