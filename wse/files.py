"""Readers for unchecked user files: size limits, file types, JSON syntax and error messages."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NoReturn

from wse.errors import BadInput, BadModel

TOML_LIMIT_BYTES: Final = 2**20


def read_file(path: Path, limit_bytes: int, error: type[BadInput], expected_file: str = "a readable file") -> bytes:
    """Return the content of a regular file of limited size.

    Args:
        path: Path of the file.
        limit_bytes: Maximum size in bytes.
        error: Exception class to raise.
        expected_file: What the file should be, for the message "give the path of ...".

    Raises:
        error: The file is missing, not a regular file, unreadable, or larger than ``limit_bytes``.
    """
    try:
        if not path.is_file():
            reason = "is not a regular file" if path.exists() else "does not exist"
            if path == Path():  # pathlib reads an empty path as the current folder
                reason = "is this folder, or an empty path"
            raise error(f"{path}: {reason}; give the path of {expected_file}")
        with path.open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except (OSError, ValueError) as fault:
        raise error(f"{path}: cannot be read ({fault}); check the path and its permissions") from fault
    if len(data) > limit_bytes:
        raise error(f"{path}: is over {limit_bytes:,} bytes, the most such a file may have; is it the right file?")
    return data


def read_toml(path: Path, error: type[BadInput]) -> dict[str, Any]:
    """Return the top-level table of a TOML file as a dictionary.

    Args:
        path: Path of the file.
        error: Class of the exception to raise.

    Raises:
        error: The file cannot be read, is larger than ``TOML_LIMIT_BYTES``, or is not valid TOML.
    """
    data = read_file(path, TOML_LIMIT_BYTES, error, "a TOML file")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as fault:  # syntax with line and column, encoding, or nesting
        raise error(f"{path}: not TOML: {fault}; correct that line") from fault


def path_exists(text: str) -> bool:
    """Return whether a string is the path of an existing file or folder.

    The result is False for a string that cannot be a path, such as one with a null character.
    """
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long for a file name, or with a character that no path has
        return False


def names_toml_file(text: str) -> bool:
    """Return whether a string is meant as the path of a TOML file, not as a bundled file's name.

    A string is a path if it ends in ``.toml``, contains a slash or backslash, or names an existing
    file.
    """
    try:
        return Path(text).suffix == ".toml" or "/" in text or "\\" in text or Path(text).is_file()
    except OSError:  # too long for a file name
        return False


def short_repr(value: Any) -> str:
    """Return the repr of a value, truncated to 80 characters for use in a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        text = f"an integer of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:80] + "…"


def read_object(path: Path, limit_bytes: int) -> dict[str, Any]:
    """Return the JSON object in a file, rejecting NaN, Infinity and duplicate keys.

    Raises:
        BadModel: The file cannot be read, is larger than ``limit_bytes``, or does not contain a
            valid JSON object.
    """
    return parse_object(read_file(path, limit_bytes, BadModel), str(path))


def parse_object(data: bytes, origin: str) -> dict[str, Any]:
    """Parse a JSON object in UTF-8, rejecting NaN, Infinity and duplicate keys.

    Args:
        data: JSON text in UTF-8.
        origin: Path of the file, for messages.

    Raises:
        BadModel: The bytes are not a JSON object. A syntax error is reported with its line and
            column.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadModel(
            f"{origin}: not JSON at line {error.lineno}, column {error.colno} ({error.msg}); "
            "correct it or fetch the file again"
        ) from error
    except UnicodeDecodeError as error:
        raise BadModel(
            f"{origin}: not JSON: byte {error.start} is not UTF-8; correct it or fetch the file again"
        ) from error
    except RecursionError as error:
        raise BadModel(f"{origin}: nested too deeply to be read; fetch the file again") from error
    except ValueError as error:  # from the hooks, or an integer of thousands of digits
        raise BadModel(f"{origin}: {error}; correct it or fetch the file again") from error
    if not isinstance(value, dict):
        raise BadModel(f"{origin}: holds a JSON {type(value).__name__}, not an object; is it the right file?")
    return value


def _unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of a JSON object as a dict. Raise ValueError if a key occurs twice."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} is given twice")
        result[key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN, Infinity or -Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{name} is not a number of JSON")
