"""Update the command outputs in pages: the code blocks below ``<!-- $ wse ... -->``.

A block may show excerpts of the output, separated by lines of ``...``. A block whose excerpts still
occur in the output of its command is not changed. Otherwise, each excerpt is located in the new
output by its first and last line, even if their numbers have changed. If an excerpt cannot be
located, the block gets the whole output and is reported, so that you can shorten it by hand.

Example:
    python tools/page_outputs.py                          # all pages, or those that are named
    python tools/page_outputs.py --only "estimate story"  # commands that contain this
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "docs"), str(ROOT / "tests" / "support")]

from test_outputs import BLOCK, CUT, PAGES, single_spaced  # noqa: E402

SIMILAR = 0.75
"""Minimum similarity (0 to 1) between an old line and its replacement, both without numbers."""


def output_of(command: str, file: str, page_text: str) -> str:
    """Run the commands of a block in an empty folder, and return the output of the last one.

    Args:
        command: The commands without the first ``wse``, such as
            ``run --trace t.h5 && wse inspect t.h5``.
        file: Name of a file that the commands read and whose text the page contains. Empty for
            none.
        page_text: Text of the page.
    """
    with tempfile.TemporaryDirectory() as folder:
        if file:
            (source,) = re.findall(rf"<!-- {re.escape(file)} -->\n```\w+\n(.*?)```", page_text, re.DOTALL)
            (Path(folder) / file).parent.mkdir(exist_ok=True)
            (Path(folder) / file).write_text(source, encoding="utf-8")
        shell = "".join(f"{sys.executable} -m wse {each} > out || exit 1\n" for each in command.split(" && wse "))
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": path}
        subprocess.run(["sh", "-c", shell], cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
        return (Path(folder) / "out").read_text(encoding="utf-8")


def refilled(block: str, output: str) -> tuple[str, bool]:
    """Replace the excerpts in a block by the corresponding lines of a new output.

    Args:
        block: Current text of the block.
        output: New output of its command.

    Returns:
        The new text and True, or the whole output and False if an excerpt was not located.
    """
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    pieces, shown = CUT.split(block), single_spaced(output)
    new, begin = [], 0
    for index, piece in enumerate(pieces):
        old = piece.strip("\n").splitlines()
        if single_spaced(piece) in shown:  # unchanged, or empty because the block starts or ends with "..."
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
    """Return the index of the line that is most similar to ``line``, or None if none is similar.

    Among lines that are equal without their numbers, the one with more similar numbers is
    returned, and then the one closest to the index ``near``.

    Args:
        line: The old line.
        lines: Lines of the new output.
        begin: Index of the first line to consider.
        near: Index at which the line is expected.
    """
    ratios = {at: _ratio(_letters(line), _letters(lines[at])) for at in range(begin, len(lines))}
    best = max(ratios, key=lambda at: (ratios[at], _ratio(line, lines[at]), -abs(at - near)), default=None)
    return best if best is not None and ratios[best] >= SIMILAR else None


def _ratio(first: str, second: str) -> float:
    """Return the similarity of two texts, from 0 to 1."""
    return SequenceMatcher(None, first, second).ratio()


def _letters(line: str) -> str:
    """Return a line with every run of digits, bar characters and spaces replaced by one space."""
    return re.sub(r"[\d.,▏▎▍▌▋▊▉█\s]+", " ", line)


def rewrite(page: Path, only: str) -> None:
    """Update the blocks of a page, and print the commands whose blocks changed.

    Args:
        page: The Markdown file.
        only: Only blocks whose commands contain this text are updated.
    """
    text = page.read_text(encoding="utf-8")
    for file, command, block in BLOCK.findall(text):
        if only not in command:
            continue
        new, found = refilled(block, output_of(command, file, text))
        if new != block:
            print(f"{page.name}: wse {command}: {'changed' if found else 'WHOLE OUTPUT, shorten it'}", flush=True)
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
