"""Changes of the machine that are tried each on its own, as ``--what-if clock=x2,sram=x2`` gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.studies.options.settings import SOFTWARE, WAFER, machine_numbers, read_setting

DEFAULT: Final = "default"
MOST_CHANGES: Final = 200

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
"""Words for numbers of the machine that are asked about most: all elements a cycle of a PE are its arithmetic."""
DEFAULTS: Final = "clock=x2,sram=x2,hop=x0.5,arithmetic=x2,dispatch=x0.5,latency=x0.5,bandwidth=x2,host=x0.5"
"""The changes that ``default`` stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the machine: what it is called, the value or factor, and the settings that make it."""

    name: str
    value: str
    settings: tuple[str, ...]


def read_changes(text: str, option: str = "--what-if") -> tuple[Change, ...]:
    """Return the changes of a text such as ``clock=x2,wafer.hop_cycles=1``, or those that ``default`` stands for.

    A number may be there with several values, each of which is a change.

    Raises:
        UnknownName: a name is neither a short one nor a number of the machine.
        BadInput: there is none, one twice, more than 200, or a value is none that the number can have.
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    changes = [c for piece in pieces for c in (read_changes(DEFAULTS) if piece == DEFAULT else [_read(piece, option)])]
    if not 0 < len(changes) <= MOST_CHANGES:
        message = f"{option} {text[:80]!r}: give 1 to {MOST_CHANGES} changes, such as clock=x2,sram=x2, or {DEFAULT}"
        raise BadInput(message)
    labels = [f"{change.name}={change.value}" for change in changes]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        message = f"{option}: {twice} is given twice; keep one"
        raise BadInput(message)
    return tuple(changes)


def _read(piece: str, option: str) -> Change:
    name, equals, value = (part.strip() for part in piece.partition("="))
    if not equals or not value:
        message = f"{option} {piece!r}: give a change, such as clock=x2 or wafer.hop_cycles=1, or {DEFAULT}"
        raise BadInput(message)
    if name not in SHORT_NAMES and not name.startswith((WAFER, SOFTWARE)):
        raise UnknownName("change", name, [*SHORT_NAMES, *machine_numbers()], where=option)
    settings = tuple(f"{number}={value}" for number in SHORT_NAMES.get(name, (name,)))
    for setting in settings:
        read_setting(setting, option)
    return Change(name=name, value=value.replace("×", "x").replace("*", "x"), settings=settings)
