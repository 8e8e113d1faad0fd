"""Settings: numbers of a wafer or of its software that take the place of their files', as ``--set`` gives them.

``wafer.clock_hz=1.1GHz`` is a value, ``wafer.clock_hz=x2`` a factor of what the files say. A setting stays a text until
the wafer is known, which a factor needs; `with_settings` then has all of them as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from wse.errors import BadInput, UnknownName
from wse.hardware.load import Values, check_value, load_software, load_wafer
from wse.hardware.number import numeric_fields, unit_of
from wse.hardware.quantity import read_factor, read_quantity, units_for
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.options.option import replace_options
from wse.studies.options.placement import PlacementRequest

R = TypeVar("R", bound=PlacementRequest)

WAFER, SOFTWARE = "wafer.", "software."
"""Prefixes of the names of numbers of the wafer and of the software."""
MACHINES: Final[dict[str, type[WaferSpec | SoftwareProfile]]] = {WAFER: WaferSpec, SOFTWARE: SoftwareProfile}
WHOLE_WITHIN: Final = 0.1
"""The most by which the product of a whole number and a factor may be off a whole number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A number of the machine: a value in the unit of its name, or a factor of what the files say."""

    prefix: str
    key: str
    amount: int | float
    is_factor: bool = False

    @property
    def name(self) -> str:
        """Its name, such as ``wafer.clock_hz``."""
        return f"{self.prefix}{self.key}"

    def of(self, number: float, where: str) -> int | float:
        """Return the value instead of ``number``, which is what the files say; a whole number stays whole.

        Raises:
            BadInput: a factor of a whole number makes none, nor one that is within a tenth; or it is one of 0.
        """
        if not self.is_factor:
            return self.amount
        product = number * self.amount
        if not product:
            message = f"{where}: {self.name} is 0, of which any factor is 0; give a value"
            raise BadInput(message)
        if numeric_fields(MACHINES[self.prefix])[self.key] is float:
            return product
        if abs(round(product) - product) > WHOLE_WITHIN * product:
            message = (
                f"{where}: {self.name} = {number:g} x {self.amount:g} is {product:g}, which is no whole number; "
                f"give a value, such as {self.name}={max(1, round(product))}"
            )
            raise BadInput(message)
        return round(product)


def machine_numbers() -> dict[str, type]:
    """Return the type of every number of a wafer and of software by its name, int or float."""
    return {f"{prefix}{key}": kind for prefix, spec in MACHINES.items() for key, kind in numeric_fields(spec).items()}


def read_setting(text: str, where: str = "--set") -> Setting:
    """Return the setting of ``wafer.KEY=VALUE``, or ``=xFACTOR``; ``where`` it was given is for messages.

    Raises:
        UnknownName: there is no such number; with the nearest.
        BadInput: it has another form, or the value is none that the number can have.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        message = f"{where} {text!r}: give a number of the machine and its value, such as wafer.clock_hz=x2"
        raise BadInput(message)
    check_name(name, where)
    prefix, key = name[: name.index(".") + 1], name[name.index(".") + 1 :]
    factor = read_factor(value)
    if factor is not None:
        return Setting(prefix=prefix, key=key, amount=factor, is_factor=True)
    unit = unit_of(key)
    number = read_quantity(value, unit)
    if number is None:
        units = ", ".join(units_for(unit))
        form = f"a number, in {unit}{f' or with one of {units}' if units else ''}, or a factor such as x2"
        message = f"{where} {name}={value}: give {form}"
        raise BadInput(message)
    check_value(MACHINES[prefix], f"{where}: {prefix[:-1]}", key, number)
    return Setting(prefix=prefix, key=key, amount=number)


def check_name(name: str, where: str) -> None:
    """Raise UnknownName for a number that neither a wafer nor software has."""
    if name not in machine_numbers():
        raise UnknownName("setting", name, machine_numbers(), where=where)


def with_settings(request: R) -> R:
    """Return the request with its settings as numbers of its wafer and its software; itself where it has none.

    Raises:
        BadInput and its kinds: as of `read_setting`; a number is set twice, or there is no such wafer or software.
    """
    if not request.machine.settings:
        return request
    wafer = load_wafer(request.machine.wafer, request.machine.wafer_values)
    software = load_software(request.machine.software, wafer.generation, request.machine.software_values)
    of_wafer, of_software = read_settings(request.machine.settings, wafer, software)
    return replace_options(
        request,
        settings=(),
        wafer_values=replaced(request.machine.wafer_values, of_wafer),
        software_values=replaced(request.machine.software_values, of_software),
    )


def read_settings(
    texts: Iterable[str], wafer: WaferSpec, software: SoftwareProfile
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers that settings give a wafer and its software, by key.

    Raises:
        BadInput and its kinds: as of `read_setting`; a number is set twice.
    """
    settings = [read_setting(text) for text in texts]
    names = [setting.name for setting in settings]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"--set {twice}: is given twice; keep one"
        raise BadInput(message)
    return _numbers(settings, WAFER, wafer), _numbers(settings, SOFTWARE, software)


def replaced(values: Values, others: Mapping[str, float]) -> Values:
    """Numbers with ``others`` instead of those of the same name, or behind them."""
    return (*((name, number) for name, number in values if name not in others), *others.items())


def replaced_numbers(request: PlacementRequest) -> dict[str, float]:
    """Return the numbers of a prepared request's wafer and software that are not those of their files, by name."""
    of_machines = ((WAFER, request.machine.wafer_values), (SOFTWARE, request.machine.software_values))
    return {f"{prefix}{key}": value for prefix, values in of_machines for key, value in values}


def _numbers(settings: Iterable[Setting], prefix: str, machine: WaferSpec | SoftwareProfile) -> dict[str, float]:
    """Return the numbers of one of the two that settings give it."""
    return {
        setting.key: setting.of(getattr(machine, setting.key), "--set")
        for setting in settings
        if setting.prefix == prefix
    }
