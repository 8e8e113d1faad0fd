"""The diffs of docs/adding apply to today's tree, stay small, and bring what their pages say, when it is used there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tool_scripts import import_script

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "docs" / "examples" / "package" / "wse_example"
MAX_SOURCES = {
    **dict.fromkeys(("strategy", "rewrite", "family", "wafer", "software", "stack", "pattern"), 1),
    **dict.fromkeys(("subcommand", "gpu"), 2),
    "generation": 4,
    "kernel": 10,
    "transfer": 6,
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return import_script("adding_diffs")


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
    assert pages == set(MAX_SOURCES)
    rows = re.findall(r"\]\((\w+)\.md\) \| (\d+) \| (\d+) \|", (script.PAGES / "README.md").read_text(encoding="utf-8"))
    read = {page: script.read_page(page) for page in pages}
    counted = {p: (len(page.sources), len(page.touched_files) + len(page.generated)) for p, page in read.items()}
    assert {page: (int(sources), int(sources) + int(others)) for page, sources, others in rows} == counted


@pytest.mark.parametrize("page", MAX_SOURCES)
def test_diff_applies_and_touches_few_source_files(script: ModuleType, page: str, tmp_path: Path) -> None:
    read_page = script.read_page(page)
    assert len(read_page.sources) <= MAX_SOURCES[page]
    for file in (*read_page.touched_files, *read_page.generated):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, tmp_path / file)
    script.take_out(read_page, tmp_path)
    assert not [file for file in (*read_page.created_files, *read_page.generated) if (tmp_path / file).exists()]
    script.add(read_page, tmp_path)
    for file in read_page.created_files:
        same = PACKAGE / Path(file).name
        if same.exists():
            assert (tmp_path / file).read_text(encoding="utf-8") == same.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", MAX_SOURCES)
def test_what_was_added_works_as_the_page_says(script: ModuleType, page: str, tmp_path: Path) -> None:
    folder, read_page = tmp_path / "tree", script.read_page(page)
    script.copy_tree(folder)
    script.take_out(read_page, folder)
    script.add(read_page, folder)
    printed = output_in(folder, read_page.commands)
    lines = [" ".join(line.split()) for line in read_page.output.splitlines() if line.strip() not in ("", "...")]
    assert lines
    for line in lines:
        assert line in printed
