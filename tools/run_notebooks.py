"""Runs the notebooks of docs/notebooks again, writes their outputs into them: python tools/run_notebooks.py [NAME ...].

Figures in their prose follow by hand: the difference that git shows says which.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def run(path: Path) -> None:
    """Runs the notebook at `path` from top to bottom and replaces its outputs; nothing is written if a cell fails."""
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
