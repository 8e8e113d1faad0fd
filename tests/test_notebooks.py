"""The notebooks run from top to bottom, and say what they say in the file."""

import json
import re
from pathlib import Path

import pytest
from tiers import AT_REQUEST

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
assert NOTEBOOKS, "no notebooks"
LONGEST = ("three-questions", "one-wafer-or-two")
"""Those of models of full size, which take twenty seconds: they are run where WSE_ALL_OUTPUTS is set."""


def text_of(cell):
    """What a cell printed."""
    return "".join(output["text"] for output in cell.get("outputs", ()) if output["output_type"] == "stream")


def pictures_of(cell):
    """The number of pictures a cell drew."""
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[AT_REQUEST] * (path.stem in LONGEST)) for path in NOTEBOOKS]
)
def test_outputs_are_those_in_the_file(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for library in ("ipykernel", "polars"):
        pytest.importorskip(library)
    kept, run = nbformat.read(path, 4), nbformat.read(path, 4)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    nbclient.NotebookClient(run, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    assert sum(map(pictures_of, kept.cells)) > 2
    for number, (before, after) in enumerate(zip(kept.cells, run.cells, strict=True)):
        assert text_of(after) == text_of(before), f"cell {number}: {after['source']}"
        assert pictures_of(after) == pictures_of(before), f"cell {number}: {after['source']}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_files_are_small_and_of_no_machine(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 220_000
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert not any(cell["metadata"] for cell in notebook["cells"])
    assert not re.search(r"/(home|root|tmp|work|Users|opt|usr)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_numbers_in_the_text_are_those_of_the_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    others = json.dumps([(cell["source"], cell["outputs"]) for cell in cells if cell["cell_type"] == "code"])
    assert not [number for number in re.findall(r"\d[\d,]*,\d{3}\b|\d+\.\d+", text) if number not in others]
