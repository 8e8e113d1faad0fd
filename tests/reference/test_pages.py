"""Tests of docs/reference: the committed pages are up to date and complete."""

import re
from pathlib import Path

import pytest

import wse
from wse import api, errors
from wse.cli.reference import json_keys, python_api
from wse.cli.reference.files import FILES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", FILES)
def test_file_is_current(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path](), "run: python -m wse.cli.reference ."


def test_python_page_lists_all_functions_results_and_errors() -> None:
    page = python_api.page()
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    functions = {f"wse.{name}" for name in dir(wse) if hasattr(api, name)}
    assert set(headings) == functions | {result.__name__ for result in json_keys.COMMANDS.values()} | {
        "Trace",
        "Endpoint",
    }
    described = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(re.findall(r"[├└]── (\w+)", page)) == described - {"WseError", "WseBug"}
