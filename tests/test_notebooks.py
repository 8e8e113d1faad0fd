"""Tests of the notebooks: executing them reproduces the stored outputs, and the files contain no metadata or paths."""

import json
import re
from pathlib import Path

import pytest
from tiers import AT_REQUEST

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
assert NOTEBOOKS, "no notebooks"
SLOW_NOTEBOOKS = ("three-questions", "one-wafer-or-two")
"""Notebooks about models of full size, which take 20 s. They run only if WSE_ALL_OUTPUTS is set."""


def printed_text(cell):
    """Return the text that a cell printed."""
    return "".join(output["text"] for output in cell.get("outputs", ()) if output["output_type"] == "stream")


def picture_count(cell):
    """Return the number of PNG pictures in the output of a cell."""
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[AT_REQUEST] * (path.stem in SLOW_NOTEBOOKS)) for path in NOTEBOOKS]
)
def test_outputs_equal_the_stored_ones(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for library in ("ipykernel", "polars"):
        pytest.importorskip(library)
    stored, executed = nbformat.read(path, 4), nbformat.read(path, 4)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    nbclient.NotebookClient(executed, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    assert sum(map(picture_count, stored.cells)) > 2
    for number, (before, after) in enumerate(zip(stored.cells, executed.cells, strict=True)):
        assert printed_text(after) == printed_text(before), f"cell {number}: {after['source']}"
        assert picture_count(after) == picture_count(before), f"cell {number}: {after['source']}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_files_are_small_and_contain_no_paths_of_a_machine(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 220_000
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert not any(cell["metadata"] for cell in notebook["cells"])
    assert not re.search(r"/(home|root|tmp|work|Users|opt|usr)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_numbers_in_the_text_occur_in_the_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    others = json.dumps([(cell["source"], cell["outputs"]) for cell in cells if cell["cell_type"] == "code"])
    assert not [number for number in re.findall(r"\d[\d,]*,\d{3}\b|\d+\.\d+", text) if number not in others]
