"""Reading files that nobody has checked: regular ones, and no more of them than they may have."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput

TOML_LIMIT_BYTES: Final = 2**20


def read_file(path: Path, limit_bytes: int, error: type[BadInput], what: str = "a readable file") -> bytes:
    """Return the bytes of a regular file; ``what`` it should have been is for the message.

    Raises:
        error: the file is missing, is not a regular file, cannot be read, or is over ``limit_bytes``.
    """
    try:
        if not path.is_file():
            reason = "is not a regular file" if path.exists() else "does not exist"
            if path == Path():  # an empty path is this folder to Python
                reason = "is this folder, or an empty path"
            msg = f"{path}: {reason}; give the path of {what}"
            raise error(msg)
        with path.open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except (OSError, ValueError) as fault:
        msg = f"{path}: cannot be read ({fault}); check the path and its permissions"
        raise error(msg) from fault
    if len(data) > limit_bytes:
        msg = f"{path}: is over {limit_bytes:,} bytes, the most such a file may have; is it the right file?"
        raise error(msg)
    return data


def read_toml(path: Path, error: type[BadInput]) -> dict[str, Any]:
    """Return the table of a TOML file.

    Raises:
        error: it cannot be read, is over ``TOML_LIMIT_BYTES``, or is not TOML.
    """
    data = read_file(path, TOML_LIMIT_BYTES, error, "a TOML file")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as fault:  # syntax with line and column, encoding, or nesting
        msg = f"{path}: not TOML: {fault}; correct that line"
        raise error(msg) from fault


def path_exists(where: str) -> bool:
    """Return whether a text is the path of something that is there; what no path can be is not."""
    try:
        return Path(where).exists()
    except (OSError, ValueError):  # longer than any file name, or with a character of none
        return False


def names_toml_file(where: str) -> bool:
    """Return whether a text is the path of a TOML file, not a name: by its suffix, its form, or an existing file."""
    try:
        return Path(where).suffix == ".toml" or "/" in where or "\\" in where or Path(where).is_file()
    except OSError:  # longer than any file name
        return False


def short_repr(value: Any) -> str:
    """Return a value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
