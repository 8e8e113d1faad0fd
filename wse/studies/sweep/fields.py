"""Fields of a sweep: the options of an estimate, and the numbers of its wafer and of its software."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.load import check_value
from wse.hardware.quantity import COUNT, whole_number
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import value_as
from wse.studies.options.option import RequestField, options_of
from wse.studies.options.settings import MACHINES, SOFTWARE, WAFER, check_name, machine_numbers, read_setting

Scalar = str | int | float

DEFAULT, AUTO = "default", "auto"
"""Words that stand for an option's default, and for as many wafers as are needed."""

LONGEST_TEXT: Final = 4096
_NO_AXES: Final = ("Trace", "Output")
"""Panels of options that say what an estimate writes and prints."""
OF_GPUS: Final = frozenset(("gpu", "gpus", "stack", "parallelism"))
_KINDS: Final = {int: "a whole number", float: "a number", str: f"a text of 1 to {LONGEST_TEXT:,} characters"}


def _options() -> dict[str, RequestField]:
    """Return the options of an estimate that decide its numbers."""
    every = options_of(EstimateRequest)
    return {
        name: field
        for name, field in every.items()
        if name == "price" or (field.option.panel not in _NO_AXES and name != "settings")
    }


@cache
def known_fields() -> dict[str, type]:
    """Return the type of every field by name: int, float or str."""
    options = {name: field.type for name, field in _options().items()}
    return options | machine_numbers()


def is_number_of_machine(name: str) -> bool:
    """Return whether a field is a number of the wafer or of the software, not an option."""
    return name in machine_numbers()


def checked_value(name: str, raw: object, where: str) -> Scalar:
    """The value of a field as the table shows it; an option's default instead of the word for it, where it is a value.

    Raises:
        UnknownName: there is no such field.
        BadInput: the value is of another type, or no machine could have it.
    """
    fields = known_fields()
    if name.startswith((WAFER, SOFTWARE)):
        check_name(name, where)
    if name not in fields:
        raise UnknownName("setting", name, fields, where=where)
    if is_number_of_machine(name):
        prefix, _, key = name.partition(".")
        if isinstance(raw, str):
            setting = read_setting(f"{name}={raw}", where)
            return f"x{setting.amount:g}" if setting.is_factor else setting.amount
        with suppress(TypeError):
            number: int | float = value_as(int | float, raw)
            check_value(MACHINES[f"{prefix}."], f"{where}: {prefix}", key, number)
            return number
    elif raw is None or (isinstance(raw, str) and raw == DEFAULT):
        default = _options()[name].default
        return default if isinstance(default, str | int | float) else _word(name)
    elif isinstance(raw, str) and raw == AUTO == _options()[name].option.none:
        return AUTO
    elif isinstance(raw, str) and fields[name] is int:
        count = whole_number(raw, _options()[name].option.unit or COUNT)
        raw = raw if count is None else count
    try:
        return _value(fields[name], raw if is_number_of_machine(name) else _options()[name].spelled(raw))
    except TypeError as error:
        shown = repr(raw)
        shown = shown if len(shown) <= 80 else shown[:80] + "…"
        message = f"{where}: {name} = {shown}: give {_KINDS[fields[name]]}{_or_words(name)}"
        raise BadInput(message) from error


def _value(type_: type, raw: object) -> Scalar:
    """Return a value as one of a type. Raises TypeError for one that is of another, empty, too long or not finite."""
    value: Scalar = value_as(type_, raw)
    if isinstance(value, str) and not 1 <= len(value) <= LONGEST_TEXT:
        raise TypeError
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError
    return value


def option_value(name: str, value: Scalar) -> Scalar | None:
    """The value of a request's field for a checked value of an option: None where the default is to be computed."""
    is_found = _options()[name].default is None or _options()[name].option.none == AUTO
    return None if is_found and value == _word(name) else value


def _word(name: str) -> str:
    """Return the word in a table for the default of an option that is to be computed."""
    return AUTO if _options()[name].option.none == AUTO else DEFAULT


def _or_words(name: str) -> str:
    if is_number_of_machine(name):
        return ""
    return f", or {_word(name)}"
