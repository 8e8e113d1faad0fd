"""Read JSON objects from user files, with checks of size, encoding, syntax and duplicate keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from wse.errors import BadModel
from wse.files import read_file


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
        msg = (
            f"{origin}: not JSON at line {error.lineno}, column {error.colno} ({error.msg}); "
            "correct it or fetch the file again"
        )
        raise BadModel(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{origin}: not JSON: byte {error.start} is not UTF-8; correct it or fetch the file again"
        raise BadModel(msg) from error
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
