"""Grid: all combinations of the values of several sweep fields. The last axis varies fastest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.hardware.load import check_value
from wse.hardware.quantity import COUNT, whole_number
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.amounts import read_amount
from wse.studies.options.arguments import value_as
from wse.studies.options.option import RequestField, make_request, options_of
from wse.studies.options.settings import MACHINES, SOFTWARE, WAFER, check_name, machine_numbers, read_setting

Scalar = str | int | float

DEFAULT, AUTO = "default", "auto"
"""Values that denote an option's default, and the required number of wafers."""

LONGEST_TEXT: Final = 4096
_NO_AXES: Final = ("Trace", "Output")
"""Panels of output options, which cannot be swept."""
_NO_AXIS_NAMES: Final = ("settings", "workload_name")
"""Options that stand for other options, which are swept instead."""
OF_GPUS: Final = frozenset(("gpu", "gpus", "stack", "parallelism"))
_KINDS: Final = {int: "a whole number", float: "a number", str: f"a text of 1 to {LONGEST_TEXT:,} characters"}


@cache
def _options() -> dict[str, RequestField]:
    """Return the estimate options that a sweep can vary, keyed by option name."""
    all_options = options_of(EstimateRequest)
    return {
        name: field
        for name, field in all_options.items()
        if name == "price" or (field.option.panel not in _NO_AXES and name not in _NO_AXIS_NAMES)
    }


@cache
def known_fields() -> dict[str, type]:
    """Return all names that a sweep can vary, with their types: int, float or str.

    These are the estimate options, such as ``batch``, and the constants of the wafer and software,
    such as ``wafer.clock_hz``. The types are keyed by name.
    """
    options = {name: field.type for name, field in _options().items()}
    return options | machine_numbers()


def unit_of(name: str) -> str:
    """Return the unit of an option's number; "" if it has none or is a constant of a machine."""
    return "" if is_number_of_machine(name) else _options()[name].option.unit


def is_number_of_machine(name: str) -> bool:
    """Return whether a name is a constant of the wafer or software, such as ``wafer.clock_hz``."""
    return name in machine_numbers()


def checked_value(name: str, raw: object, source: str) -> Scalar:
    """Check a value for an option or constant, and return it as displayed in tables.

    The value ``default`` is replaced by the default of the option. It remains if the default is
    only computed later. A factor for a constant, such as "x2", remains a string.

    Args:
        name: Name of the option or constant, such as ``batch`` or ``wafer.clock_hz``.
        raw: Value from a TOML file, from the command line or from Python.
        source: Source of the value, for error messages.

    Raises:
        UnknownName: The option or constant does not exist.
        BadInput: The value has the wrong type, or is out of range for the constant.
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
    elif isinstance(raw, str) and fields[name] is float:
        raw = read_amount(f"{source}: {name} =", raw, _options()[name].option.unit)
    try:
        return _value(fields[name], raw if is_number_of_machine(name) else _options()[name].spelled(raw))
    except TypeError as error:
        word = "" if is_number_of_machine(name) else f", or {_word(name)}"
        raise BadInput(f"{source}: {name} = {short_repr(raw)}: give {_KINDS[fields[name]]}{word}") from error


def _value(type_: type, raw: object) -> Scalar:
    """Check the type and length of a swept value, and convert it to int, float or str.

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
    """Convert a checked option value to the value that an estimate request expects.

    Args:
        name: Name of the option.
        value: Value as returned by `checked_value`.

    Returns:
        None for ``auto`` or ``default`` if the actual value is computed later. Otherwise the value.
    """
    is_found = _options()[name].default is None or _options()[name].option.none == AUTO
    return None if is_found and value == _word(name) else value


def _word(name: str) -> str:
    """Return the word with which a user requests an option's default: ``auto`` or ``default``."""
    return AUTO if _options()[name].option.none == AUTO else DEFAULT


TOKENS: Final = "new_tokens"


@dataclass(frozen=True, slots=True)
class Axis:
    """An option or constant that a sweep varies, with the list of values to try.

    An option with a single value is an axis too. All settings of the sweep then have this value.
    """

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cartesian product of the values of several axes.

    Each combination is called a setting. Settings are indexed from 0; the last axis varies fastest.

    >>> grid = Grid((Axis("batch", (1, 8)), Axis("mapping", ("region", "pipeline"))))
    >>> len(grid), grid.setting(2)
    (4, {'batch': 8, 'mapping': 'region'})
    """

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        """Return the number of settings."""
        return math.prod(len(axis.values) for axis in self.axes)

    def places(self, index: int) -> tuple[int, ...]:
        """Return the position of a setting on each axis, as an index into the values of the axis.

        Args:
            index: Index of the setting in the sweep.
        """
        return tuple(map(int, np.unravel_index(index, [len(axis.values) for axis in self.axes])))

    def setting(self, index: int) -> dict[str, Scalar]:
        """Return the values of one setting of the sweep, keyed by axis name.

        Args:
            index: Index of the setting in the sweep.
        """
        return {axis.name: axis.values[at] for axis, at in zip(self.axes, self.places(index), strict=True)}

    def groups(self, indices: Iterable[int]) -> list[list[int]]:
        """Divide settings into groups that can reuse each other's compilation results.

        The settings within a group differ only in machine constants and in the number of generated
        tokens. A single worker process estimates a whole group, so that it can reuse cached
        results, such as reduction trees.

        Args:
            indices: Indices of the settings to group.

        Returns:
            For each group, the indices of its settings.
        """
        deciding = [
            at for at, axis in enumerate(self.axes) if not is_number_of_machine(axis.name) and axis.name != TOKENS
        ]
        by_places: dict[tuple[int, ...], list[int]] = {}
        for index in indices:
            places = self.places(index)
            by_places.setdefault(tuple(places[at] for at in deciding), []).append(index)
        return list(by_places.values())

    def request(self, index: int) -> EstimateRequest:
        """Return the estimate request for one setting of the sweep.

        Args:
            index: Index of the setting in the sweep.
        """
        setting = self.setting(index)
        options: dict[str, Any] = {
            name: option_value(name, value) for name, value in setting.items() if not is_number_of_machine(name)
        }
        numbers: dict[str, Any] = {
            f"{prefix[:-1]}_values": tuple(
                (name.removeprefix(prefix), value)
                for name, value in setting.items()
                if name.startswith(prefix) and not isinstance(value, str)
            )
            for prefix in (WAFER, SOFTWARE)
        }
        factors = [f"{name}={value}" for name, value in setting.items() if is_number_of_machine(name)]
        return make_request(
            EstimateRequest, **options, **numbers, settings=tuple(text for text in factors if "=x" in text)
        )
