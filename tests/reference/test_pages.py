"""The pages of docs/reference are what options, result classes and signatures generate."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import wse
from wse import api, errors
from wse.cli.reference import json_keys, python_api
from wse.cli.reference.files import FILES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_current(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path](), "run: python -m wse.cli.reference ."


@pytest.mark.slow
def test_all_files_are_written_and_no_other_page_is_there(tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "wse.cli.reference", tmp_path], check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == set(FILES)
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "reference").iterdir()}
    assert pages == {path for path in FILES if path.startswith("docs")}


def test_the_library_has_its_functions_results_and_errors_on_a_page() -> None:
    page = python_api.page()
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    functions = {f"wse.{name}" for name in dir(wse) if hasattr(api, name)}
    assert set(headings) == functions | {result.__name__ for result in json_keys.COMMANDS.values()} | {"Trace"}
    described = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(re.findall(r"[├└]── (\w+)", page)) == described - {"WseError", "WseBug"}


@pytest.mark.parametrize("anchor", re.findall(r"json\.md#([\w-]+)", python_api.page()))
def test_a_result_leads_to_its_keys(anchor: str) -> None:
    titles = re.findall(r"^## (.*)$", json_keys.page(), re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-") for title in titles}
