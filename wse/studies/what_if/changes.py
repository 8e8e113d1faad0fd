"""Machine changes for ``--what-if``, such as ``clock=x2,sram=x2``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.number import unit_of
from wse.hardware.quantity import has_unit, is_time, read_quantity
from wse.studies.options.settings import SOFTWARE, WAFER, machine_numbers, read_setting

OPTION: Final = "--what-if"
DEFAULT: Final = "default"
MAX_CHANGES: Final = 200

SHORT_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "clock": ("wafer.clock_hz",),
    "sram": ("wafer.sram_bytes_per_pe",),
    "hop": ("wafer.hop_cycles",),
    "arithmetic": tuple(
        f"wafer.{name}_per_cycle"
        for name in (
            *("mac_fp16", "mac_fp16_fp32", "mac_fp32", "add_fp16", "add_fp32", "max_fp32"),
            *("move_32bit", "convert", "logic_16bit", "shift_16bit"),
        )
    ),
    "dispatch": ("software.task_dispatch_cycles",),
    "latency": ("wafer.wafer_link_latency_s",),
    "bandwidth": ("wafer.wafer_link_bytes_per_s",),
    "host": ("wafer.host_round_trip_s",),
}
"""Short names of machine constants. "arithmetic" denotes all elements-per-cycle constants."""
DEFAULTS: Final = "clock=x2,sram=x2,hop=x0.5,arithmetic=x2,dispatch=x0.5,latency=x0.5,bandwidth=x2,host=x0.5"
"""The changes denoted by ``default``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to one machine constant, or to several related constants, such as ``clock=x2``.

    Attributes:
        name: A short name such as ``clock``, or the name of a constant such as ``wafer.clock_hz``.
        value: The new value, or a factor such as ``x2``.
        settings: Values of the option ``--set`` with the same effect.
    """

    name: str
    value: str
    settings: tuple[str, ...]


def read_changes(text: str) -> tuple[Change, ...]:
    """Parse machine changes such as "clock=x2,wafer.hop_cycles=1".

    The word ``default`` denotes the changes in `DEFAULTS`. A constant may occur with several
    values, each of which is a separate change.

    Args:
        text: The changes, separated by commas.

    Raises:
        UnknownName: A name is neither a short name nor a constant of the machine.
        BadInput: There are no changes, duplicate changes, more than `MAX_CHANGES` changes, or an
            invalid value.
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    changes = [c for piece in pieces for c in (read_changes(DEFAULTS) if piece == DEFAULT else [_read(piece)])]
    if not 0 < len(changes) <= MAX_CHANGES:
        raise BadInput(
            f"{OPTION} {text[:80]!r}: give 1 to {MAX_CHANGES} changes, such as clock=x2,sram=x2, or {DEFAULT}"
        )
    labels = [f"{change.name}={change.value}" for change in changes]
    repeated_label = next((label for label in labels if labels.count(label) > 1), None)
    if repeated_label is not None:
        raise BadInput(f"{OPTION}: {repeated_label} is given twice; keep one")
    return tuple(changes)


def _read(piece: str) -> Change:
    name, equals, value = (part.strip() for part in piece.partition("="))
    if not equals or not value:
        raise BadInput(f"{OPTION} {piece!r}: give a change, such as clock=x2 or wafer.hop_cycles=1, or {DEFAULT}")
    if name not in SHORT_NAMES and not name.startswith((WAFER, SOFTWARE)):
        raise UnknownName("change", name, [*SHORT_NAMES, *machine_numbers()], place=OPTION)
    # The full name of a constant ends with its unit. A short name does not, so a duration needs one.
    units = {unit_of(number.partition(".")[2]) for number in SHORT_NAMES.get(name, ())}
    if any(is_time(unit) and read_quantity(value, unit) is not None for unit in units) and not has_unit(value):
        raise BadInput(
            f"{OPTION} {piece}: a duration needs a unit; give {name}={value}us, {name}={value}ns or a factor"
        )
    settings = tuple(f"{number}={value}" for number in SHORT_NAMES.get(name, (name,)))
    for setting in settings:
        read_setting(setting, OPTION)
    return Change(name=name, value=value.replace("×", "x").replace("*", "x"), settings=settings)
