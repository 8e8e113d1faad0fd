"""Check numbers from user files: plain numbers, or tables with unit, grade, source and range.

A number can also be a string with a unit, such as ``"96KiB"``, or a table with another unit, such as
``{value = 96, unit = "KiB"}``. Both are converted to the unit of the field.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic

from wse.errors import BadWafer, UnknownName
from wse.files import short_repr
from wse.hardware.number import Grade, SourcedNumber, bounds_of, unit_of
from wse.hardware.quantity import has_unit, read_quantity, units_for


class _Entry(pydantic.BaseModel):
    """A number in a TOML file that is written as a table, such as ``{value = 1, unit = "s"}``."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    value: int | float
    unit: str | None = None
    grade: Grade = "U"
    source: Annotated[str, pydantic.Field(min_length=1, max_length=1000)] | None = None
    range: Annotated[list[int | float], pydantic.Field(min_length=2, max_length=2)] | None = None
    range_source: Annotated[str, pydantic.Field(min_length=1, max_length=1000)] | None = None


def entries_by(owners: Collection[str], word: str, place: str, key: str, raw_value: Any) -> dict[str, Any]:
    """Split a setting with separate values for several owners into one entry per owner.

    An owner is a generation of wafers or GPUs, or a machine. For example, the value ``{"wse2": 14,
    "wse3": 5}`` of ``relay_cycles`` becomes ``{"relay_cycles.wse2": 14, "relay_cycles.wse3": 5}``.

    Args:
        owners: Names of all owners.
        word: Kind of owner for the message, such as "generation".
        place: File or other origin of the value.
        key: Key in the file.
        raw_value: A value for all owners, or a table with a value for at least one owner.

    Returns:
        The value of each owner, keyed by ``KEY.OWNER``. If the value is for all owners, a single
        entry with the key ``KEY``.

    Raises:
        UnknownName: The table has values for owners, but also contains a name that is not an owner.
    """
    if not isinstance(raw_value, dict) or raw_value.keys().isdisjoint(owners):
        return {key: raw_value}
    for owner in raw_value:
        if owner not in owners:
            raise UnknownName(word, owner, owners, place=f"{place}: {key}")
    return {f"{key}.{owner}": value for owner, value in raw_value.items()}


def read_number(path: Path | str, name: str, raw_value: Any, number_type: type, default_source: str) -> SourcedNumber:
    """Check a number from a configuration file and return it with its unit and source.

    Args:
        path: File with the number, or a description of its origin, for error messages.
        name: Field name, which determines the unit and bounds. It may be followed by ``.`` and the
            name of a generation or machine (``wafer_power_w.cs4``).
        raw_value: A number or a string such as ``"96KiB"``, or a table with ``value`` and
            optionally ``unit``, ``grade``, ``source``, ``range`` and ``range_source``.
        number_type: int or float. For float, integers are accepted too; for int, floats are
            rejected.
        default_source: Source of the number if the table does not specify one.

    Raises:
        BadWafer: The value is not a number, has the wrong unit, or is outside the bounds of the
            field or its own range.
    """
    key = name.partition(".")[0]
    place, unit = f"{path}: {name}", unit_of(key)
    table = raw_value if isinstance(raw_value, dict) else {"value": raw_value}
    input_unit = table["unit"] if table.get("unit") in units_for(unit) else unit
    numbers = {name: _converted(table[name], input_unit, unit) for name in ("value", "range") if name in table}
    try:
        entry = _Entry.model_validate(table | numbers)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = str(fault["loc"][0])
        key_path = f" {field}" if isinstance(raw_value, dict) else ""
        is_number = len(fault["loc"]) > 1  # one of the types of a value, or an end of a range
        fault_text = "" if is_number else f"{fault['msg']}; "
        raise BadWafer(
            f"{place} ={key_path} {short_repr(fault['input'])}: {fault_text}"
            f"give {_toml_form(unit)}, or a table with value, unit, grade, source, range, range_source"
        ) from error
    if entry.unit not in (None, unit, input_unit):
        units_text = _alternatives([unit, *(name for name in units_for(unit) if name != unit)])
        raise BadWafer(f"{place} is given in {short_repr(entry.unit)}: give it in {units_text}")
    low, high = bounds_of(key)
    if number_type is int and not isinstance(entry.value, int):
        raise BadWafer(f"{place} = {entry.value!r}: give a whole number from {low:,} to {high:,} ({unit})")
    if not low <= entry.value <= high:
        raise BadWafer(f"{place} = {short_repr(entry.value)}: give a number from {low:,} to {high:,} ({unit})")
    range_low, range_high = entry.range or (entry.value, entry.value)
    if not low <= range_low <= entry.value <= range_high <= high:
        raise BadWafer(
            f"{place}: the range from {short_repr(range_low)} to {short_repr(range_high)} does not contain the value "
            f"{short_repr(entry.value)}, or is not within {low:,} to {high:,}; give two numbers around it"
        )
    source = entry.source if entry.source is not None else default_source
    number_range = (float(range_low), float(range_high)) if entry.range else None
    return SourcedNumber(
        value=number_type(entry.value),
        unit=unit,
        grade=entry.grade,
        source=source,
        range=number_range,
        range_source=entry.range_source,
    )


def _converted(raw_value: Any, input_unit: str, unit: str) -> Any:
    """Convert a number, a string such as ``"96KiB"``, or each item of a list, to ``unit``.

    Other values, and strings that cannot be read as numbers, are returned unchanged.

    Args:
        raw_value: The value, or the list of both ends of a range.
        input_unit: Unit of numbers, and of strings without a unit of their own: ``unit`` or one of
            its `units_for`.
        unit: Unit of the result.

    >>> _converted(96, "KiB", "byte/PE"), _converted(["20kW", 15_000], "W", "W")
    (98304, [20000, 15000])
    """
    if isinstance(raw_value, list):
        return [_converted(item, input_unit, unit) for item in raw_value]
    is_converted = isinstance(raw_value, str) or (input_unit != unit and not isinstance(raw_value, bool))
    text = raw_value if isinstance(raw_value, str) else short_repr(raw_value)
    number = read_quantity(text if input_unit == unit or has_unit(text) else text + input_unit, unit)
    return number if is_converted and number is not None else raw_value


def _toml_form(unit: str) -> str:
    """Return a phrase that says how a number that is stored in ``unit`` is written in a TOML file.

    >>> _toml_form("Hz")
    'a number (in Hz), or text with a unit in quotation marks (Hz, kHz, MHz or GHz)'
    >>> _toml_form("cycle")
    'a number (in cycle)'
    """
    units_text = _alternatives(units_for(unit))
    return f"a number (in {unit})" + (f", or text with a unit in quotation marks ({units_text})" if units_text else "")


def _alternatives(units: Sequence[str]) -> str:
    """Return units as text, such as "Hz, kHz or MHz"."""
    return " or ".join(filter(None, (", ".join(units[:-1]), *units[-1:])))
