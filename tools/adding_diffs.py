"""The diffs of docs/adding: what a page shows, a copy of the tree with the diff in it, and the page's diff made anew.

After a rename, where a diff does not apply any more, ``open`` makes a copy of the tree with as much of the diff as
applies, the rest beside it in ``*.rej``; ``take`` puts what was edited there into the page.

Example:
    python tools/adding_diffs.py open pattern /tmp/pattern
    python tools/adding_diffs.py take pattern /tmp/pattern
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "adding"
DRAWERS = ("wse", "kernels", "mappings", "traces")
COPIED = (*DRAWERS, "tests", "tools", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CREATED = re.compile(r"^diff --git a/(\S+) b/\S+\nnew file mode", re.MULTILINE)
TOUCHED = re.compile(r"^diff --git a/(\S+)", re.MULTILINE)


class PageContent(NamedTuple):
    """The content of a page.

    Attributes:
        diff: What is added.
        commands: Shell commands that use it.
        output: Lines of what they print.
        generated: Files that are added and that a tool writes, too large for a page.
    """

    diff: str
    commands: str
    output: str
    generated: tuple[str, ...] = ()

    @property
    def touched_files(self) -> list[str]:
        """The files that the diff adds or changes."""
        return TOUCHED.findall(self.diff)

    @property
    def created_files(self) -> list[str]:
        """The files that the diff adds. The tree may have them: a page may show the last one that was added."""
        return CREATED.findall(self.diff)

    @property
    def sources(self) -> list[str]:
        """The touched files that are neither tests nor documentation."""
        return [file for file in self.touched_files if file.partition("/")[0] in DRAWERS]


def read_page(page: str) -> PageContent:
    """Return the content of the page of that name: its blocks ``diff``, ``sh``, ``text`` and ``files``, one of each."""
    blocks = dict(BLOCK.findall((PAGES / f"{page}.md").read_text(encoding="utf-8")))
    return PageContent(blocks["diff"], blocks["sh"], blocks.get("text", ""), tuple(blocks.get("files", "").split()))


def copy_tree(folder: Path) -> None:
    """Copy the tree to a new folder."""
    folder.mkdir(parents=True)
    left_out = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=left_out)
        else:
            shutil.copy(ROOT / name, folder / name)


def is_in_tree(edit: PageContent) -> bool:
    """Return whether the tree has what a page adds: the page shows the last one that was added."""
    return any((ROOT / file).exists() for file in edit.created_files)


def take_out(edit: PageContent, folder: Path) -> None:
    """Take what a page adds out of a copy of the tree, where the tree has it."""
    if is_in_tree(edit):
        apply(edit.diff, folder, "--reverse")
        for file in edit.generated:
            (folder / file).unlink()


def add(edit: PageContent, folder: Path) -> None:
    """Add what a page adds to a copy of the tree without it."""
    apply(edit.diff, folder)
    for file in edit.generated:
        shutil.copy(ROOT / file, folder / file)


def apply(diff: str, folder: Path, *options: str) -> None:
    """Apply a diff to a copy of the tree; one line of context before and after a change is enough."""
    arguments = ("git", "apply", "--recount", "-C1", *options, "-")
    nowhere_else = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    subprocess.run(arguments, cwd=folder, input=diff, text=True, check="--reject" not in options, env=nowhere_else)


def open_copy(page: str, folder: Path) -> None:
    """Make a repository of the tree in ``folder``, with the page's diff as an edit that is not committed."""
    edit = read_page(page)
    copy_tree(folder)
    for file in edit.created_files:
        (folder / file).unlink(missing_ok=True)
    (folder / ".gitignore").write_text("__pycache__\n*.rej\n.gitignore\n", encoding="utf-8")
    for command in (("init", "-q"), ("add", "-A"), ("-c", "user.name=-", "-c", "user.email=-", "commit", "-qm", "-")):
        subprocess.run(("git", *command), cwd=folder, check=True)
    apply(edit.diff, folder, "--reject")
    for file in edit.created_files:
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, folder / file)


def take(page: str, folder: Path) -> None:
    """Put what was edited in ``folder`` into the page."""
    subprocess.run(("git", "add", "-A"), cwd=folder, check=True)
    command = ("git", "diff", "--cached", "-U1", "--no-color")
    diff = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    diff = re.sub(r"^index .*\n", "", diff, flags=re.MULTILINE)
    file = PAGES / f"{page}.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(f"```diff\n{read_page(page).diff}```", f"```diff\n{diff}```"), encoding="utf-8")


def main() -> None:
    """Open a copy of the tree for a page, or take its diff from one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("open", "take"))
    parser.add_argument("page", help="kernel: docs/adding/kernel.md")
    parser.add_argument("folder", type=Path, help="of the copy")
    asked = parser.parse_args()
    (open_copy if asked.action == "open" else take)(asked.page, asked.folder)


if __name__ == "__main__":
    main()
