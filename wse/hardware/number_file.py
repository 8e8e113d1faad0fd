"""TOML files of numbers that nobody has checked: each a plain number, or a table with unit, grade, source and range."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import pydantic

from wse.errors import BadWafer, UnknownName
from wse.files import short_repr
from wse.hardware.number import Grade, SourcedNumber, bounds_of, unit_of


class _Entry(pydantic.BaseModel):
    """A number that is given as a table."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    value: int | float
    unit: str | None = None
    grade: Grade = "U"
    source: Annotated[str, pydantic.Field(min_length=1, max_length=1000)] | None = None
    range: Annotated[list[int | float], pydantic.Field(min_length=2, max_length=2)] | None = None


def entries_by(owners: Collection[str], word: str, place: str, key: str, stated: Any) -> dict[str, Any]:
    """Divide the value of a key that may be given for each of several owners, such as generations or machines.

    Args:
        owners: Names of the owners.
        word: What the message for an unknown owner calls one.
        place: The file, or where else the value is given.
        key: The key.
        stated: Its value: one for all owners, or a table with a value for at least one of them.

    Returns:
        ``stated`` under ``key``, or what the table gives for each owner under the key, a point and the owner.

    Raises:
        UnknownName: the table has a known and an unknown owner.
    """
    if not isinstance(stated, dict) or stated.keys().isdisjoint(owners):
        return {key: stated}
    for owner in stated:
        if owner not in owners:
            raise UnknownName(word, owner, owners, where=f"{place}: {key}")
    return {f"{key}.{owner}": value for owner, value in stated.items()}


def read_number(path: Path | str, name: str, stated: Any, type_: type, default_source: str) -> SourcedNumber:
    """Return a checked number of a file; a whole number is welcome where a float is expected, not the reverse.

    ``path`` is the file, or says where else the number was given. ``name`` is the field, after which a point and whose
    number it is may follow; ``type_`` is int or float.

    Raises:
        BadWafer: it is no number, in another unit, out of bounds, or outside the range that it gives itself.
    """
    key = name.partition(".")[0]
    place, unit = f"{path}: {name}", unit_of(key)
    try:
        entry = _Entry.model_validate(stated if isinstance(stated, dict) else {"value": stated})
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in fault["loc"] if part not in ("int", "float"))
        at = f" {at}" if isinstance(stated, dict) and at else ""
        msg = (
            f"{place} ={at} {short_repr(fault['input'])}: {fault['msg']}; "
            f"give a number in {unit}, or a table with value, unit, grade, source, range"
        )
        raise BadWafer(msg) from error
    if entry.unit is not None and entry.unit != unit:
        msg = f"{place} is given in {short_repr(entry.unit)}: give it in {unit!r}"
        raise BadWafer(msg)
    low, high = bounds_of(key)
    if type_ is int and not isinstance(entry.value, int):
        msg = f"{place} = {entry.value!r}: give a whole number from {low:,} to {high:,}"
        raise BadWafer(msg)
    if not low <= entry.value <= high:
        msg = f"{place} = {short_repr(entry.value)}: give a number from {low:,} to {high:,} ({unit})"
        raise BadWafer(msg)
    least, most = entry.range or (entry.value, entry.value)
    if not low <= least <= entry.value <= most <= high:
        msg = (
            f"{place}: the range from {short_repr(least)} to {short_repr(most)} does not hold the value "
            f"{short_repr(entry.value)}, or leaves {low:,} to {high:,}; give two numbers around it"
        )
        raise BadWafer(msg)
    source = entry.source if entry.source is not None else default_source
    extent = (float(least), float(most)) if entry.range else None
    return SourcedNumber(value=type_(entry.value), unit=unit, grade=entry.grade, source=source, range=extent)
