"""Run the notebooks in docs/notebooks and save their new outputs.

    python tools/run_notebooks.py [NAME ...]

The text cells are not changed. If the text states a number that has changed, correct it by hand;
``git diff`` shows the changed outputs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def run(path: Path) -> None:
    """Run a notebook from top to bottom and replace its outputs.

    If a cell raises an exception, the file is not changed.
    """
    notebook = nbformat.read(path, 4)
    metadata = notebook.metadata
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    notebook.metadata = {"kernelspec": metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
    path.write_text(nbformat.writes(notebook, 4) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    for name in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        run(NOTEBOOKS / f"{name}.ipynb")
