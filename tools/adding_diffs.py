"""Repair the diffs in the pages of docs/adding after a change of the code.

A page shows an example as a diff against the current code. If it does not apply any more, repair it
in three steps:

1. ``open`` copies the repository and applies the parts of the diff that still apply. The other
   parts are written to ``*.rej`` files in the copy.
2. Make the remaining changes in the copy by hand.
3. ``take`` replaces the diff in the page by the changes in the copy.

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
SOURCE_FOLDERS = ("wse", "kernels", "mappings", "traces")
COPIED = (*SOURCE_FOLDERS, "tests", "tools", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CREATED = re.compile(r"^diff --git a/(\S+) b/\S+\nnew file mode", re.MULTILINE)
TOUCHED = re.compile(r"^diff --git a/(\S+)", re.MULTILINE)


class PageContent(NamedTuple):
    """The code blocks of a page in docs/adding.

    Attributes:
        diff: The example, as a diff against the repository.
        commands: Shell commands that use the example.
        output: Lines that these commands print.
        generated: Further files of the example, which a tool writes and which are too large for
            the page.
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
        """The files that the diff adds.

        They may already be in the repository, because a page may show a feature that exists.
        """
        return CREATED.findall(self.diff)

    @property
    def sources(self) -> list[str]:
        """The touched files that are neither tests nor documentation."""
        return [file for file in self.touched_files if file.partition("/")[0] in SOURCE_FOLDERS]


def read_page(page: str) -> PageContent:
    """Read a page of docs/adding, given by its file name without ``.md``.

    It must have a block ``diff`` and a block ``sh``; ``text`` and ``files`` are optional.
    """
    blocks = dict(BLOCK.findall((PAGES / f"{page}.md").read_text(encoding="utf-8")))
    return PageContent(blocks["diff"], blocks["sh"], blocks.get("text", ""), tuple(blocks.get("files", "").split()))


def copy_tree(folder: Path) -> None:
    """Copy the repository to a new folder, without hidden files and compiled code."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def is_in_tree(edit: PageContent) -> bool:
    """Return whether the repository already has files that a page's diff adds."""
    return any((ROOT / file).exists() for file in edit.created_files)


def take_out(edit: PageContent, folder: Path) -> None:
    """Remove a page's example from a copy of the repository, if the repository has it."""
    if is_in_tree(edit):
        apply(edit.diff, folder, "--reverse")
        for file in edit.generated:
            (folder / file).unlink()


def add(edit: PageContent, folder: Path) -> None:
    """Add a page's example to a copy of the repository that does not have it."""
    apply(edit.diff, folder)
    for file in edit.generated:
        shutil.copy(ROOT / file, folder / file)


def apply(diff: str, folder: Path, *options: str) -> None:
    """Apply a diff to a copy of the repository with ``git apply``.

    One line of context before and after a change is enough.

    Args:
        diff: The diff.
        folder: The copy.
        options: Further options of ``git apply``. With ``--reject``, a part that does not apply is
            written to a ``.rej`` file. Otherwise it raises CalledProcessError.
    """
    arguments = ("git", "apply", "--recount", "-C1", *options, "-")
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    subprocess.run(arguments, cwd=folder, input=diff, text=True, check="--reject" not in options, env=environment)


def open_copy(page: str, folder: Path) -> None:
    """Copy the code to a new git repository in ``folder`` and apply the page's diff to it.

    The copy is committed there before the diff is applied, so the diff is an uncommitted change.
    """
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
    """Replace the diff in a page by the uncommitted changes in ``folder``."""
    subprocess.run(("git", "add", "-A"), cwd=folder, check=True)
    command = ("git", "diff", "--cached", "-U1", "--no-color")
    diff = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    diff = re.sub(r"^index .*\n", "", diff, flags=re.MULTILINE)
    file = PAGES / f"{page}.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(f"```diff\n{read_page(page).diff}```", f"```diff\n{diff}```"), encoding="utf-8")


def main() -> None:
    """Open a copy of the repository for a page, or take the page's diff from the copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("open", "take"))
    parser.add_argument("page", help="name of the page, such as kernel for docs/adding/kernel.md")
    parser.add_argument("folder", type=Path, help="folder of the copy")
    asked = parser.parse_args()
    (open_copy if asked.action == "open" else take)(asked.page, asked.folder)


if __name__ == "__main__":
    main()
