"""A file of prompts, one a user: lines of text, or a JSON list of texts where the name ends in ``.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NoReturn

from wse.errors import BadInput
from wse.files import read_file

LARGEST_BYTES: Final = 16 << 20
MOST_PROMPTS: Final = 4096


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts of a UTF-8 file in order. A line has no line break in it; a text in a JSON list may.

    Raises:
        BadInput: the file is missing, no regular file, unreadable, too large, not UTF-8 or not such a list, has no
            prompts or too many, or one of them is empty.
    """
    text = _text(path)
    prompts = _listed(path, text) if path.suffix == ".json" else _lines(text)
    if not prompts:
        _refuse(path, "holds no prompt; give one a line, or a JSON list of texts in a .json file")
    if len(prompts) > MOST_PROMPTS:
        _refuse(path, f"holds {len(prompts):,} prompts; give at most {MOST_PROMPTS:,} in one run")
    place = "item" if path.suffix == ".json" else "line"
    for number, prompt in enumerate(prompts, start=1):
        if not prompt.strip():
            _refuse(path, f"{place} {number} is empty; give each prompt some text")
    return tuple(prompts)


def _text(path: Path) -> str:
    try:
        return read_file(path, LARGEST_BYTES, BadInput, "a file of prompts").decode("utf-8-sig")
    except BadInput as error:
        message = f"--prompts {error}"
        raise BadInput(message) from error
    except UnicodeDecodeError as error:
        message = f"--prompts {path}: byte {error.start} is not UTF-8; save it as UTF-8"
        raise BadInput(message) from error


def _lines(text: str) -> list[str]:
    """What stands between line feeds, each perhaps after a carriage return; the last may end without one."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _listed(path: Path, text: str) -> list[str]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"--prompts {path}: not JSON at line {error.lineno}, column {error.colno} ({error.msg}); correct it"
        raise BadInput(message) from error
    except (RecursionError, ValueError) as error:
        message = f"--prompts {path}: not a JSON list of texts; correct it"
        raise BadInput(message) from error
    if not isinstance(value, list):
        _refuse(path, f'holds a JSON {type(value).__name__}, not a list of texts such as ["One day", "Once"]')
    for number, item in enumerate(value, start=1):
        if not isinstance(item, str):
            _refuse(path, f"item {number} is a {type(item).__name__}, not a text; put it in quotes")
    return list(value)


def _refuse(path: Path, reason: str) -> NoReturn:
    message = f"--prompts {path}: {reason}"
    raise BadInput(message)
