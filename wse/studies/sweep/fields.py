"""Sweep fields: estimate options, and constants of the wafer and software."""

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
"""Values that denote an option's default, and the required number of wafers."""

LONGEST_TEXT: Final = 4096
_NO_AXES: Final = ("Trace", "Output")
"""Panels of output options, which cannot be swept."""
OF_GPUS: Final = frozenset(("gpu", "gpus", "stack", "parallelism"))
_KINDS: Final = {int: "a whole number", float: "a number", str: f"a text of 1 to {LONGEST_TEXT:,} characters"}


def _options() -> dict[str, RequestField]:
    """Return the estimate options that can change the result, keyed by option name."""
    all_options = options_of(EstimateRequest)
    return {
        name: field
        for name, field in all_options.items()
        if name == "price" or (field.option.panel not in _NO_AXES and name != "settings")
    }


@cache
def known_fields() -> dict[str, type]:
    """Return all names that a sweep can vary, with their types: int, float or str.

    These are the estimate options, such as ``batch``, and the constants of the wafer and software,
    such as ``wafer.clock_hz``. The types are keyed by name.
    """
    options = {name: field.type for name, field in _options().items()}
    return options | machine_numbers()


def is_number_of_machine(name: str) -> bool:
    """Return whether a name is a constant of the wafer or software, such as ``wafer.clock_hz``."""
    return name in machine_numbers()


def checked_value(name: str, raw: object, source: str) -> Scalar:
    """Check a value for an option or constant, and return it as displayed in tables.

    The value ``default`` of an option is replaced by the default, unless the default is computed
    later. A factor for a constant, such as "x2", remains a string.

    Args:
        name: Name of the option or constant, such as ``batch`` or ``wafer.clock_hz``.
        raw: Value from a TOML file, from the command line or from Python.
        source: Source of the value, for error messages.

    Raises:
        UnknownName: The option or constant does not exist.
        BadInput: The value has the wrong type, or is not possible for the machine.
    """
    fields = known_fields()
    if name.startswith((WAFER, SOFTWARE)):
        check_name(name, source)
    if name not in fields:
        raise UnknownName("setting", name, fields, place=source)
    if is_number_of_machine(name):
        prefix, _, key = name.partition(".")
        if isinstance(raw, str):
            setting = read_setting(f"{name}={raw}", source)
            return f"x{setting.amount:g}" if setting.is_factor else setting.amount
        with suppress(TypeError):
            number: int | float = value_as(int | float, raw)
            check_value(MACHINES[f"{prefix}."], f"{source}: {prefix}", key, number)
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
        printed_value = repr(raw)
        printed_value = printed_value if len(printed_value) <= 80 else printed_value[:80] + "…"
        message = f"{source}: {name} = {printed_value}: give {_KINDS[fields[name]]}{_or_words(name)}"
        raise BadInput(message) from error


def _value(type_: type, raw: object) -> Scalar:
    """Convert a value of a sweep to int, float or str.

    Raises:
        TypeError: The value has a different type, is not finite, or is an empty or overlong string.
    """
    value: Scalar = value_as(type_, raw)
    if isinstance(value, str) and not 1 <= len(value) <= LONGEST_TEXT:
        raise TypeError
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError
    return value


def option_value(name: str, value: Scalar) -> Scalar | None:
    """Convert a checked option value to the value expected by an estimate request.

    None denotes a default that is computed later.

    Args:
        name: Name of the option.
        value: Value as returned by `checked_value`.
    """
    is_found = _options()[name].default is None or _options()[name].option.none == AUTO
    return None if is_found and value == _word(name) else value


def _word(name: str) -> str:
    """Return the word that selects the default of an option: ``auto`` or ``default``."""
    return AUTO if _options()[name].option.none == AUTO else DEFAULT


def _or_words(name: str) -> str:
    if is_number_of_machine(name):
        return ""
    return f", or {_word(name)}"
