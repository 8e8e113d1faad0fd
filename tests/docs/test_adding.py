"""Tests of docs/adding: each diff applies to the current tree, touches few files, and works as its page shows."""

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
MAX_SOURCE_FILES = {
    **dict.fromkeys(("strategy", "rewrite", "family", "wafer", "software", "stack", "pattern"), 1),
    **dict.fromkeys(("subcommand", "gpu"), 2),
    "generation": 4,
    "kernel": 10,
    "transfer": 6,
}
"""Maximum number of source files that the diff of each page may touch."""


RUN_BY_THE_SUITE = ("family",)
"""Pages whose commands only run tests of the repository, which already has their files."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Import ``tools/adding_diffs.py``."""
    return import_script("adding_diffs")


def output_in(folder: Path, commands: str, *, interpreted: bool) -> str:
    """Run shell commands in a copy of the repository. Return their output with single spaces between words.

    Changed kernels would all have to be compiled again, so their page is tested with ``interpreted`` kernels.
    """
    roots = [str(folder / name) for name in ("", "kernels", "mappings", "traces")]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
    environment["NUMBA_DISABLE_JIT"] = str(int(interpreted))
    command = ("bash", "-euo", "pipefail", "-c", commands)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def test_list_of_pages_states_the_number_of_files_of_each_diff(script: ModuleType) -> None:
    pages = {file.stem for file in script.PAGES.glob("*.md")} - {"README"}
    assert pages == set(MAX_SOURCE_FILES)
    rows = re.findall(r"\]\((\w+)\.md\) \| (\d+) \| (\d+) \|", (script.PAGES / "README.md").read_text(encoding="utf-8"))
    read_pages = {name: script.read_page(name) for name in pages}
    counts = {
        name: (len(page.sources), len(page.touched_files) + len(page.generated)) for name, page in read_pages.items()
    }
    assert {page: (int(sources), int(sources) + int(others)) for page, sources, others in rows} == counts


@pytest.mark.parametrize("page", MAX_SOURCE_FILES)
def test_diff_applies_and_touches_few_source_files(script: ModuleType, page: str, tmp_path: Path) -> None:
    read_page = script.read_page(page)
    assert len(read_page.sources) <= MAX_SOURCE_FILES[page]
    for file in (*read_page.touched_files, *read_page.generated):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, tmp_path / file)
    script.take_out(read_page, tmp_path)
    assert not [file for file in (*read_page.created_files, *read_page.generated) if (tmp_path / file).exists()]
    script.add(read_page, tmp_path)
    assert page not in RUN_BY_THE_SUITE or script.is_in_tree(read_page)
    if script.is_in_tree(read_page):
        for file in read_page.touched_files:
            assert (tmp_path / file).read_bytes() == (ROOT / file).read_bytes(), file
    for file in read_page.created_files:
        packaged = PACKAGE / Path(file).name
        if packaged.exists():
            assert (tmp_path / file).read_text(encoding="utf-8") == packaged.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository for all pages, so that Python compiles its modules only once."""
    folder: Path = tmp_path_factory.mktemp("tree") / "tree"
    script.copy_tree(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in MAX_SOURCE_FILES if page not in RUN_BY_THE_SUITE])
def test_commands_print_the_output_on_the_page_after_the_diff(script: ModuleType, page: str, tree: Path) -> None:
    read_page = script.read_page(page)
    script.take_out(read_page, tree)
    script.add(read_page, tree)
    try:
        printed = output_in(tree, read_page.commands, interpreted=page == "kernel")
    finally:
        for file in (*read_page.touched_files, *read_page.generated):
            (tree / file).unlink(missing_ok=True)
            if (ROOT / file).exists():
                shutil.copy2(ROOT / file, tree / file)
    lines = [" ".join(line.split()) for line in read_page.output.splitlines() if line.strip() not in ("", "...")]
    assert lines
    for line in lines:
        assert line in printed
