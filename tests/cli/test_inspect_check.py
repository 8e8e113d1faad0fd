"""``wse inspect`` of files that are no sound traces, and ``--check``: all that is wrong, in lines with places."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import pytest

from tests.cli.conftest import Wse

FILES: list[tuple[str, str]] = [
    ("text.h5", "not an HDF5 file, so not a trace"),
    ("other.h5", "attribute 'format' is missing"),
    ("newer.h5", "version 3"),
    ("cut.h5", "truncated: it has "),
    ("lacks.h5", "steps/cycles: missing, or not a dataset of this file"),
]


@pytest.mark.parametrize(("name", "says"), FILES)
def test_check_lists_what_is_wrong(
    wse: Wse, files: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.chdir(files)
    seen = wse("inspect", name, "--check")
    assert (seen.code, seen.err) == (2, "")
    first, *problems = seen.out.splitlines()
    assert first == f"{name}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
    assert any(says in problem for problem in problems)
    asked = wse("inspect", name, "--check", "--json")
    facts = json.loads(asked.out)
    assert (asked.code, facts["sound"]) == (2, False)
    assert [f"  {problem}" for problem in facts["problems"]] == problems


def test_check_of_a_sound_file_is_one_line(wse: Wse, trace: str) -> None:
    seen = wse("inspect", trace, "--check")
    assert seen.code == 0
    assert seen.out.count("\n") == 1
    assert seen.out.startswith("t.h5: sound: trace format 1, ")
    facts = json.loads(wse("inspect", trace, "--check", "--json").out)
    with h5py.File(trace) as file:
        datasets: list[str] = []
        file.visititems(lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) else None)
        rows = int(file["run/rows"][()].sum())
    assert (facts["sound"], facts["problems"]) == (True, [])
    assert (facts["datasets"], facts["rows"]) == (len(datasets), rows)
