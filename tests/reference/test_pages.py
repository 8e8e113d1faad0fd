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
from wse.cli.reference.files import COMMITTED, FILES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", COMMITTED)
def test_a_file_is_current(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == COMMITTED[path](), "run: python -m wse.cli.reference ."


@pytest.mark.slow
def test_all_files_are_written_and_no_other_page_is_there(tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "wse.cli.reference", tmp_path], check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == set(FILES)
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "reference").iterdir()}
    assert COMMITTED.keys() <= pages <= FILES.keys()


def test_the_library_has_its_functions_results_and_errors_on_a_page() -> None:
    page = python_api.page()
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    functions = {f"wse.{name}" for name in dir(wse) if hasattr(api, name)}
    assert set(headings) == functions | {result.__name__ for result in json_keys.COMMANDS.values()} | {"Trace"}
    described = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(re.findall(r"[├└]── (\w+)", page)) == described - {"WseError", "WseBug"}
