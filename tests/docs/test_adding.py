"""The diffs of docs/adding apply to today's tree, stay small, and bring what their pages say, when it is used there."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "docs" / "examples" / "package" / "wse_example"
MOST_SOURCES = {"strategy": 1, "family": 1, "wafer": 1, "pattern": 1, "subcommand": 2, "kernel": 5, "transfer": 6}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("adding_diffs")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def output_in(folder: Path, commands: str) -> str:
    """What shell commands print in a copy of the tree, one space between words."""
    roots = [str(folder / name) for name in ("", "kernels", "mappings", "traces")]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
    command = ("bash", "-euo", "pipefail", "-c", commands)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def test_every_page_has_a_limit_and_the_list_has_its_counts(script: ModuleType) -> None:
    pages = {file.stem for file in script.PAGES.glob("*.md")} - {"README"}
    assert pages == set(MOST_SOURCES)
    rows = re.findall(r"\]\((\w+)\.md\) \| (\d+) \| (\d+) \|", (script.PAGES / "README.md").read_text(encoding="utf-8"))
    counted = {page: (len(script.read_page(page).sources), len(script.read_page(page).touched_files)) for page in pages}
    assert {page: (int(sources), int(sources) + int(others)) for page, sources, others in rows} == counted


@pytest.mark.parametrize("page", MOST_SOURCES)
def test_the_diff_applies_and_touches_few_source_files(script: ModuleType, page: str, tmp_path: Path) -> None:
    read_page = script.read_page(page)
    assert len(read_page.sources) <= MOST_SOURCES[page]
    for file in set(read_page.touched_files) - set(read_page.created_files):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    script.apply(read_page.diff, tmp_path)
    for file in read_page.created_files:
        for same in (ROOT / file, PACKAGE / Path(file).name):  # the last one that was added, or that of the package
            if same.exists():
                assert (tmp_path / file).read_text(encoding="utf-8") == same.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", MOST_SOURCES)
def test_what_was_added_works_as_the_page_says(script: ModuleType, page: str, tmp_path: Path) -> None:
    folder, read_page = tmp_path / "tree", script.read_page(page)
    script.copy_tree(folder, read_page.created_files)
    script.apply(read_page.diff, folder)
    printed = output_in(folder, read_page.commands)
    lines = [" ".join(line.split()) for line in read_page.output.splitlines() if line.strip() not in ("", "...")]
    assert lines
    for line in lines:
        assert line in printed
