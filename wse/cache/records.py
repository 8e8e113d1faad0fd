"""Records: dataclasses and named tuples as plain values of JSON, and back.

Unlike the reports of `wse.reports.result`, plain values here have every field, also those without a
value, so that the same object can be created again. The values that are read may come from a
damaged or foreign file. They are converted only if they agree with the types of the fields.
`cached` keeps the record that a computation returns in the cache on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from wse.cache.store import read_entry, write_entry

PLAIN: Final = (str, bool, int, float, NoneType)


class BadRecordError(ValueError):
    """Error for plain values from which an object cannot be created, because their types differ."""


def to_plain(value: Any) -> Any:
    """Convert an object to plain values that JSON can represent: lists, dicts, strings and numbers.

    A dataclass becomes the list of its fields, without fields with ``compare=False``. A named tuple
    becomes a list. A mapping becomes a dict if all keys are strings, and otherwise a list of pairs.
    `from_plain` reverses the conversion.
    """
    if is_dataclass(value):
        return [to_plain(getattr(value, field.name)) for field in fields(value) if field.compare]
    if isinstance(value, Mapping):
        pairs = [[to_plain(key), to_plain(item)] for key, item in value.items()]
        return dict(pairs) if all(type(key) is str for key in value) else pairs
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    assert isinstance(value, PLAIN), type(value)
    return value


def from_plain(hint: Any, value: Any) -> Any:
    """Create an object from the plain values that `to_plain` returned for it.

    Args:
        hint: Type of the object, as in a type annotation: a class, ``X | None``, ``tuple[X, ...]``,
            ``Mapping[X, Y]``, ``Literal``, or ``Any`` for the plain values themselves.
        value: Plain values, which are not trusted.

    Raises:
        BadRecordError: The values do not agree with the type.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        return from_plain(arguments[0], value)
    if origin in (Union, UnionType):
        return _one_of(arguments, value)
    if origin is Literal:
        if value in arguments:
            return value
        raise _mismatch(hint, value)
    if hint in PLAIN:
        if type(value) is hint or (hint is float and type(value) is int):
            return value
        raise _mismatch(hint, value)
    if isinstance(value, dict) and origin is not None and issubclass(origin, Mapping):
        value = list(map(list, value.items()))
    if not isinstance(value, list):
        raise _mismatch(hint, value)
    if origin is tuple:
        return _as_tuple(hint, arguments, value)
    if origin is not None and issubclass(origin, Mapping):
        return dict(_as_tuple(hint, arguments, pair) for pair in value)
    if origin is not None and issubclass(origin, Sequence):
        return tuple(from_plain(arguments[0], item) for item in value)
    hints = _field_types(hint)
    if len(value) != len(hints):
        raise _mismatch(hint, value)
    return hint(**{name: from_plain(hints[name], item) for name, item in zip(hints, value, strict=True)})


def _one_of(hints: Sequence[Any], value: Any) -> Any:
    """Convert a plain value to the first of several types that it fits.

    Raises:
        BadRecordError: The value fits none of the types.
    """
    for hint in hints:
        try:
            return from_plain(hint, value)
        except BadRecordError:
            continue
    raise _mismatch(" | ".join(map(str, hints)), value)


def _as_tuple(hint: Any, item_hints: Sequence[Any], values: Any) -> tuple[Any, ...]:
    """Create a tuple from a list of plain values.

    Args:
        hint: Type of the tuple, or of the mapping to which it belongs, for the error message.
        item_hints: Type of each item, or one type followed by ``...``.
        values: The items.

    Raises:
        BadRecordError: The number or the type of items is wrong.
    """
    if len(item_hints) == 2 and item_hints[1] is ...:
        return tuple(from_plain(item_hints[0], item) for item in values)
    if not isinstance(values, list) or len(values) != len(item_hints):
        raise _mismatch(hint, values)
    return tuple(from_plain(item_hint, item) for item_hint, item in zip(item_hints, values, strict=True))


@cache
def _field_types(record: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass or named tuple, by name and in their order."""
    hints = get_type_hints(record, include_extras=True)
    if is_dataclass(record):
        names = [field.name for field in fields(record) if field.compare]
    else:
        names = list(getattr(record, "_fields", ()))
    return {name: hints[name] for name in names}


def _mismatch(hint: Any, value: Any) -> BadRecordError:
    """Return the error for a value that does not have the expected type."""
    return BadRecordError(f"{type(value).__name__} is not {hint}")


T = TypeVar("T")


def cached(key: str | None, kind: Any, compute: Callable[[], T]) -> T:
    """Return a result from the cache, or compute it and store it there.

    If the cached result does not have the type ``kind``, it is computed again and replaced. Errors
    are not cached.

    Args:
        key: Key of the result; None to compute it without the cache.
        kind: Type of the result, for `from_plain`. A type such as ``int | None`` is possible.
        compute: Function that computes the result.
    """
    if key is None:
        return compute()
    # An entry is a list with the result, so that the result None differs from a missing entry.
    with suppress(BadRecordError):  # also if there is no entry
        result: T = from_plain(tuple[kind], read_entry(key))[0]
        return result
    result = compute()
    write_entry(key, to_plain((result,)))
    return result
