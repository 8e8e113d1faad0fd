"""Write the output of commands into the blocks of pages again: those below ``<!-- $ wse ... -->``.

A block that still shows what its command prints is left as it is. In other blocks, each piece between lines of ``...``
is found in the new output by its first and its last line, which may have other numbers. A block whose pieces are not
found gets the whole output, and is reported, so that somebody can cut it again.

Example:
    python tools/page_outputs.py                          # all pages, or those that are named
    python tools/page_outputs.py --only "estimate story"  # commands that contain this
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "docs"), str(ROOT / "tests" / "support")]

from test_outputs import BLOCK, CUT, FOLDERS, PAGES, words  # noqa: E402  # what the tests of the pages look for

from wse.models.catalogue import CONFIGURATIONS  # noqa: E402

SIMILAR = 0.75
"""The smallest similarity, without numbers, of a line and the line that replaces it."""


def printed(command: str, file: str, page_text: str) -> str:
    """Return what the last of the commands joined by ``&& wse`` prints.

    Args:
        command: The command after ``wse``, such as ``run --trace t.h5 && wse inspect t.h5``.
        file: File that the commands read; the page has its text. Empty for none.
        page_text: Text of the page.
    """
    with tempfile.TemporaryDirectory() as folder:
        if file:
            (source,) = re.findall(rf"<!-- {re.escape(file)} -->\n```\w+\n(.*?)```", page_text, re.DOTALL)
            (Path(folder) / file).write_text(source, encoding="utf-8")
        for name in FOLDERS.keys() & command.split():
            (Path(folder) / name).mkdir()
            shutil.copy(CONFIGURATIONS[FOLDERS[name]], Path(folder) / name / "config.json")
        shell = "".join(f"{sys.executable} -m wse {each} > out || exit 1\n" for each in command.split(" && wse "))
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": path}
        subprocess.run(["sh", "-c", shell], cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
        return (Path(folder) / "out").read_text(encoding="utf-8")


def refilled(block: str, output: str) -> tuple[str, bool]:
    """Return a block with the figures of an output, and whether all of its pieces were found in it."""
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    pieces, shown = CUT.split(block), words(output)
    new, begin = [], 0
    for index, piece in enumerate(pieces):
        old = piece.strip("\n").splitlines()
        if words(piece) in shown:  # as for an empty piece, which is a cut at an end
            new.append(piece)
            continue
        start = 0 if index == 0 else _similar(old[0], lines, begin, begin)
        if start is None:
            return "\n".join([*lines, ""]), False
        is_last = index == len(pieces) - 1
        end = len(lines) - 1 if is_last else _similar(old[-1], lines, start, start + len(old) - 1)
        if end is None:
            return "\n".join([*lines, ""]), False
        new.append("\n".join([*lines[start : end + 1], ""]))
        begin = end + 1
    return "...\n".join(new), True


def _similar(line: str, lines: Sequence[str], begin: int, near: int) -> int | None:
    """Return the index of the most similar line from ``begin`` on; None if none is similar.

    Numbers, and the distance from the index ``near``, decide between lines that are equal without numbers.
    """
    ratios = {at: _ratio(_letters(line), _letters(lines[at])) for at in range(begin, len(lines))}
    best = max(ratios, key=lambda at: (ratios[at], _ratio(line, lines[at]), -abs(at - near)), default=None)
    return best if best is not None and ratios[best] >= SIMILAR else None


def _ratio(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second).ratio()


def _ratio(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second).ratio()


def _letters(line: str) -> str:
    """Return a line without its numbers and bars, which change with figures."""
    return re.sub(r"[\d.,▏▎▍▌▋▊▉█\s]+", " ", line)


def rewrite(page: Path, only: str) -> None:
    """Write the blocks of a page whose commands contain a text, and report those that changed."""
    text = page.read_text(encoding="utf-8")
    for file, command, block in BLOCK.findall(text):
        if only not in command:
            continue
        new, found = refilled(block, printed(command, file, text))
        if new != block:
            print(f"{page.name}: wse {command}: {'changed' if found else 'WHOLE OUTPUT, cut it again'}", flush=True)
            before = f"$ wse {command} -->\n```text\n"
            text = text.replace(before + block, before + new)
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pages", nargs="*", type=Path, help="pages, all by default")
    parser.add_argument("--only", default="", help="commands that contain this text")
    arguments = parser.parse_args()
    for each in arguments.pages or PAGES:
        rewrite(each, arguments.only)
