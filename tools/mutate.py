"""Whether the tests notice a wrong line: each mutation is made in a copy of the tree, and its tests have to fail.

    python tools/mutate.py            all mutations, some five minutes on two cores
    python tools/mutate.py emit       those whose file or tests have this in their names

Prints one line a mutation, caught or missed. Exits 0 when all are caught, 1 when one is missed, and
2 when a mutation cannot be made, because the text that it replaces is not there exactly once (the
source has moved: write it anew) or its tests fail without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "tools" / "mutations"
COPIED: Final = ("kernels", "mappings", "tests", "traces", "wse", "pyproject.toml")
MAX_S: Final = 300  # a mutation may make a loop without end


class Mutation(NamedTuple):
    """One line made wrong in ``file``, and the arguments of pytest that have to notice."""

    file: str
    right: str
    wrong: str
    tests: str


def read_mutations() -> list[Mutation]:
    """Read the mutations of every package: ``tools/mutations/*.toml``."""
    tables = (tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml")))
    return [Mutation(**entry) for table in tables for entry in table["mutation"]]


def main() -> None:
    chosen = [m for m in read_mutations() if all(word in f"{m.file} {m.tests}" for word in sys.argv[1:])]
    for mutation in chosen:
        count = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.right)
        if count != 1:
            print(f"{mutation.file}: {mutation.right!r} is there {count} times, not once; the source has moved")
            sys.exit(2)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder) / "tree")
        for mutation in chosen:
            began = time.monotonic()
            caught = notice(mutation, tree)
            missed += not caught
            verdict = "caught" if caught else "MISSED"
            print(f"{verdict} {time.monotonic() - began:4.0f} s  {mutation.file}: {mutation.wrong}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    sys.exit(missed > 0)


def copy_tree(target: Path) -> Path:
    """Sources and tests, without what was compiled from them."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    return target


def notice(mutation: Mutation, tree: Path) -> bool:
    """Return whether the tests of a mutation, which pass on the tree, fail once it is made.

    The tree is as before then.
    """
    if not passes(mutation.tests, tree):
        print(f"{mutation.tests}: fails without any mutation")
        sys.exit(2)
    path = tree / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    try:
        return not passes(mutation.tests, tree)
    finally:
        path.write_text(text, encoding="utf-8")


def passes(tests: str, tree: Path) -> bool:
    """Return whether these tests of a tree pass; what runs without end does not."""
    paths = [str(tree / name) for name in (".", "kernels", "mappings", "traces")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=MAX_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 1:  # neither passed nor failed: no such test, or a file that cannot be imported
        print(done.stdout.decode(errors="replace")[-2000:])
        sys.exit(2)
    return done.returncode == 0


if __name__ == "__main__":
    main()
