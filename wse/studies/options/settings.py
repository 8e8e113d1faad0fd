"""Settings: numbers specified with ``--set`` that replace numbers of a wafer or software profile.

``wafer.clock_hz=1.1GHz`` sets a value; ``wafer.clock_hz=x2`` multiplies the value in the file.
Settings are kept as strings until the wafer is known, because a factor needs the value in the file.
`with_settings` then converts all settings to numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol, TypeVar

from wse.errors import BadInput, UnknownName
from wse.hardware.load import Values, check_value, load_software, load_wafer, provenance
from wse.hardware.number import SourcedNumber, numeric_fields, unit_of
from wse.hardware.quantity import read_factor, read_quantity, units_for
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.hardware.wafer_links import link_numbers
from wse.serving.economics import ALL_KEYS
from wse.studies.options.option import replace_options
from wse.studies.options.placement import MachineOptions


class MachineRequest(Protocol):
    """Request with options for a wafer and its software."""

    @property
    def machine(self) -> MachineOptions:
        """The wafer, the software profile, and the values of ``--set``."""


R = TypeVar("R", bound=MachineRequest)

WAFER, SOFTWARE = "wafer.", "software."
"""Name prefixes of wafer numbers and of software numbers."""
MACHINES: Final[dict[str, type[WaferSpec | SoftwareProfile]]] = {WAFER: WaferSpec, SOFTWARE: SoftwareProfile}
WHOLE_WITHIN: Final = 0.1
"""Maximum relative distance at which a product is still rounded to the nearest integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A user setting that replaces or multiplies a number of a wafer or software profile.

    Attributes:
        prefix: ``wafer.`` or ``software.``.
        key: Name of the number, such as ``clock_hz``.
        amount: New value in the number's unit, or factor by which to multiply the number.
        is_factor: Whether ``amount`` is a factor.
    """

    prefix: str
    key: str
    amount: int | float
    is_factor: bool = False

    @property
    def name(self) -> str:
        """Name of the number with its prefix, such as ``wafer.clock_hz``."""
        return f"{self.prefix}{self.key}"

    def of(self, number: float, option: str) -> int | float:
        """Return the number that replaces a number of the wafer or software profile.

        If the number must be an integer, its product with a factor is rounded.

        Args:
            number: Current value, which is multiplied if the setting is a factor.
            option: Name of the option that the setting belongs to, for messages.

        Raises:
            BadInput: The setting is a factor and the number is 0, or the product must be an integer
                but differs from the nearest integer by more than 10 %.
        """
        if not self.is_factor:
            return self.amount
        product = number * self.amount
        if not product:
            raise BadInput(f"{option}: {self.name} is 0, and any multiple of it is 0; give a value")
        if numeric_fields(MACHINES[self.prefix])[self.key] is float:
            return product
        if abs(round(product) - product) > WHOLE_WITHIN * product:
            raise BadInput(
                f"{option}: {self.name} = {number:g} x {self.amount:g} is {product:g}, which is not a whole number; "
                f"give a value, such as {self.name}={max(1, round(product))}"
            )
        return round(product)


@cache
def machine_numbers() -> dict[str, type]:
    """Return the names of the numbers that ``--set`` can replace, with their types.

    The keys are names such as ``wafer.clock_hz``. The values are ``int`` or ``float``.
    """
    return {f"{prefix}{key}": kind for prefix, spec in MACHINES.items() for key, kind in numeric_fields(spec).items()}


def read_setting(text: str, option: str = "--set") -> Setting:
    """Parse a setting such as ``wafer.clock_hz=1.1GHz`` or ``wafer.clock_hz=x2``.

    Args:
        text: Text of the setting.
        option: Name of the option that the setting belongs to, for messages.

    Raises:
        UnknownName: There is no such number. The message suggests the most similar name.
        BadInput: The string is not a setting, or the number cannot have this value.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise BadInput(f"{option} {text!r}: give a number of the machine and its value, such as wafer.clock_hz=x2")
    check_name(name, option)
    prefix, key = name[: name.index(".") + 1], name[name.index(".") + 1 :]
    factor = read_factor(value)
    if factor is not None:
        return Setting(prefix=prefix, key=key, amount=factor, is_factor=True)
    unit = unit_of(key)
    number = read_quantity(value, unit)
    if number is None:
        units = ", ".join(units_for(unit))
        form = f"a number, in {unit}{f' or with one of {units}' if units else ''}, or a factor such as x2"
        raise BadInput(f"{option} {name}={value}: give {form}")
    check_value(MACHINES[prefix], f"{option}: {prefix[:-1]}", key, number)
    return Setting(prefix=prefix, key=key, amount=number)


def check_name(name: str, option: str) -> None:
    """Check that a wafer or a software profile has a number with this name.

    Args:
        name: Name such as ``wafer.clock_hz``.
        option: Name of the option that the user gave, for the error message.

    Raises:
        UnknownName: There is no such number.
    """
    if name not in machine_numbers():
        is_economic = name.rpartition(".")[2] in ALL_KEYS
        remedy = "powers and prices are given with --economics FILE" if is_economic else ""
        raise UnknownName("setting", name, machine_numbers(), place=option, remedy=remedy)


def with_settings(request: R) -> R:
    """Convert the link and the settings of a request, such as ``wafer.clock_hz=x2``, to numbers.

    The returned copy contains the numbers in ``wafer_values`` and ``software_values``. A number of
    the link is ignored if a setting, or a number that the request already contains, replaces it.

    Args:
        request: Request with ``settings`` in text form.

    Raises:
        UnknownName: There is no such link, wafer, software profile or number.
        BadInput: A setting is invalid (see `read_setting`), or a number is set twice.
    """
    stored_keys = {key for key, _ in request.machine.wafer_values}
    link_changes = {
        key: number.value for key, number in link_numbers(request.machine.link).items() if key not in stored_keys
    }
    if link_changes:
        request = replace_options(request, wafer_values=with_replaced(request.machine.wafer_values, link_changes))
    if not request.machine.settings:
        return request
    wafer = load_wafer(request.machine.wafer, request.machine.wafer_values)
    software = load_software(request.machine.software, wafer.generation, request.machine.software_values)
    settings = [read_setting(text) for text in request.machine.settings]
    names = [setting.name for setting in settings]
    repeated_name = next((name for name in names if names.count(name) > 1), None)
    if repeated_name is not None:
        raise BadInput(f"--set {repeated_name}: is given twice; keep one")
    return replace_options(
        request,
        settings=(),
        wafer_values=with_replaced(request.machine.wafer_values, _numbers(settings, WAFER, wafer)),
        software_values=with_replaced(request.machine.software_values, _numbers(settings, SOFTWARE, software)),
    )


def with_replaced(values: Values, new_numbers: Mapping[str, float]) -> Values:
    """Return (name, number) pairs in which new numbers replace old numbers of the same name.

    Args:
        values: Old pairs. Those that are not replaced come first in the result.
        new_numbers: New numbers by name. They come last in the result.
    """
    return (*((name, number) for name, number in values if name not in new_numbers), *new_numbers.items())


def replaced_numbers(request: MachineRequest) -> dict[str, float]:
    """Return the numbers that a request uses instead of those in the wafer and software files.

    The settings of the request must already be converted by `with_settings`.

    Returns:
        Numbers, keyed by names such as ``wafer.clock_hz``.
    """
    values_by_prefix = ((WAFER, request.machine.wafer_values), (SOFTWARE, request.machine.software_values))
    return {f"{prefix}{key}": value for prefix, values in values_by_prefix for key, value in values}


def sourced_numbers(machine: MachineOptions) -> dict[str, dict[str, SourcedNumber]]:
    """Return all numbers of a wafer and its software with unit, grade, source and range.

    The link and the settings of the request must already be converted by `with_settings`. Numbers
    of the link have the source and range of the link; numbers that the user set have neither.

    Args:
        machine: The wafer, the software profile and the link.

    Returns:
        The numbers of the wafer and of the software, keyed by `WAFER` and `SOFTWARE`, then by field
        name. The key of a number that is valid for one generation only is ``FIELD.GENERATION``.
    """
    wafer_numbers = provenance(machine.wafer, machine.wafer_values)
    for key, number in link_numbers(machine.link).items():
        if wafer_numbers[key].value == number.value:
            wafer_numbers[key] = number
    return {WAFER: wafer_numbers, SOFTWARE: provenance(machine.software, machine.software_values)}


def _numbers(settings: Iterable[Setting], prefix: str, machine: WaferSpec | SoftwareProfile) -> dict[str, float]:
    """Return the new numbers for a wafer or a software profile.

    Args:
        settings: Settings for the wafer and for the software.
        prefix: ``wafer.`` or ``software.``. Settings with the other prefix are ignored.
        machine: Wafer or software profile whose numbers are multiplied by factors.

    Returns:
        New numbers, keyed by names without prefix, such as ``clock_hz``.
    """
    return {
        setting.key: setting.of(getattr(machine, setting.key), "--set")
        for setting in settings
        if setting.prefix == prefix
    }
