"""Check that tests detect wrong code (mutation testing).

    python tools/mutate.py            all mutations, about five minutes on two cores
    python tools/mutate.py emit       mutations whose source file or tests contain this text

A mutation (``tools/mutations/*.toml``) replaces code in a copy of the repository by wrong code. It
is caught if the tests that are listed with it then fail. One line per mutation says whether it was
caught or missed. The exit code is one of:

- 0: all mutations were caught.
- 1: at least one was missed.
- 2: a mutation cannot be tested. Either the source has changed, so that the text to replace does
  not occur exactly once, or the listed tests fail even without the mutation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from adding_diffs import copy_tree

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "tools" / "mutations"
MAX_S: Final = 300  # a mutation can cause an endless loop


class Mutation(NamedTuple):
    """A wrong change of a source file that tests must detect.

    Attributes:
        file: Source file, relative to the repository.
        right: Text to replace. It occurs exactly once in the file.
        wrong: The text that replaces it.
        tests: Arguments of pytest that run the tests which must fail.
    """

    file: str
    right: str
    wrong: str
    tests: str


def read_mutations() -> list[Mutation]:
    """Read the mutations of every package: ``tools/mutations/*.toml``."""
    tables = (tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml")))
    return [Mutation(**entry) for table in tables for entry in table["mutation"]]


def main() -> None:
    """Test the mutations that contain every word of the command line, and exit with the result."""
    chosen = [m for m in read_mutations() if all(word in f"{m.file} {m.tests}" for word in sys.argv[1:])]
    for mutation in chosen:
        count = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.right)
        if count != 1:
            print(f"{mutation.file}: {mutation.right!r} occurs {count} times instead of once; update the mutation")
            sys.exit(2)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        for mutation in chosen:
            began = time.monotonic()
            caught = is_caught(mutation, tree)
            missed += not caught
            verdict = "caught" if caught else "MISSED"
            print(f"{verdict} {time.monotonic() - began:4.0f} s  {mutation.file}: {mutation.wrong}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    sys.exit(missed > 0)


def is_caught(mutation: Mutation, tree: Path) -> bool:
    """Return whether the tests of a mutation fail with the mutation.

    The mutation is reverted afterwards.

    Args:
        mutation: The mutation to test.
        tree: Folder of a copy of the repository.

    Raises:
        SystemExit: The tests fail without the mutation.
    """
    if not passes(mutation.tests, tree):
        print(f"{mutation.tests}: fails without the mutation")
        sys.exit(2)
    path = tree / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    try:
        return not passes(mutation.tests, tree)
    finally:
        path.write_text(text, encoding="utf-8")


def passes(tests: str, tree: Path) -> bool:
    """Return whether tests pass in a copy of the repository. Tests that take too long do not pass.

    Raises:
        SystemExit: pytest could not run the tests.
    """
    paths = [str(tree / name) for name in (".", "kernels", "mappings", "traces")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=MAX_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 1:  # no such test, or a file that cannot be imported
        print(done.stdout.decode(errors="replace")[-2000:])
        sys.exit(2)
    return done.returncode == 0


if __name__ == "__main__":
    main()
