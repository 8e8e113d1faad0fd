"""The answer of a race: a text cut into as many pieces as it would have tokens."""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.files import read_file

CHARACTERS_PER_TOKEN: Final = 4.5
"""Of English text with a vocabulary of 128,000 entries (Llama 3; an estimate, 4 to 5 are quoted)."""
LIMIT_BYTES: Final = 1 << 20
"""The longest text of a user's own."""


def answer_pieces(path: str | Path | None = None) -> tuple[str, ...]:
    """The pieces of the bundled answer, or of a user's text file.

    Raises:
        BadInput: the file cannot be read, is longer than a mebibyte, is no UTF-8 or empty.
    """
    if path is None:
        text = (files("wse.comparison.race") / "answer.txt").read_text(encoding="utf-8")
    else:
        data = read_file(Path(path), LIMIT_BYTES, BadInput, "a text")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"--text {path}: not UTF-8 at byte {error.start}; save it as UTF-8"
            raise BadInput(message) from error
    return cut(" ".join(text.split()), str(path))


def cut(text: str, name: str) -> tuple[str, ...]:
    """A text in pieces of nearly `CHARACTERS_PER_TOKEN` characters, none of which is empty.

    Raises:
        BadInput: there is nothing to cut.

    >>> cut("one two three", "")
    ('one ', 'two t', 'hree')
    """
    if not text:
        message = f"--text {name}: holds no words; give a text to show"
        raise BadInput(message)
    count = max(1, round(len(text) / CHARACTERS_PER_TOKEN))
    bounds = [round(piece * len(text) / count) for piece in range(count + 1)]
    return tuple(text[start:end] for start, end in pairwise(bounds))
