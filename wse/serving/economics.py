"""Power, price and energies of machines: bundled numbers, a user's file, and given prices.

A file states a number as a plain number or as a table (`wse.hardware.number_file`), for all
machines or for each machine: ``wafer_power_w = { wse2 = 20_000, cs4 = 30_000 }``. A wafer that is
not named has the number of its generation. Keys that start with ``gpu_`` are for GPUs; all others
are for wafers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import bundled_wafers, known_wafers
from wse.hardware.number import SourcedNumber, unit_of
from wse.hardware.number_file import entries_by, read_number
from wse.hardware.spec import WaferSpec
from wse.serving.gpus.load import GPU_PRESETS, known_gpus
from wse.serving.gpus.spec import GpuSpec

_BUNDLED: Final = Path(__file__).parents[1] / "data" / "economics.toml"

MachineKind = Literal["wafer", "gpu"]

ACTIVITY_KEYS: Final = (
    "sram_read_joules_per_bit",
    "sram_write_joules_per_bit",
    "mac_fp16_joules",
    "mac_fp16_fp32_joules",
    "mac_fp32_joules",
    "hop_joules_per_wavelet",
    "ramp_joules_per_wavelet",
    "issue_joules",
    "idle_w_per_pe",
    "wall_ratio",
)
"""Energies per operation of the PEs and links of a wafer.

``mac`` is one multiply-add; ``mac_fp16_fp32`` adds fp16 products in fp32. ``ramp`` is a crossing
between router and compute element, ``issue`` the issue of one vector operation. ``wall_ratio`` is
the ratio of power at the wall to power at the PEs.
"""
_KEYS: Final[dict[MachineKind, tuple[str, ...]]] = {
    "wafer": ("wafer_power_w", "wafer_usd_per_hour", *ACTIVITY_KEYS),
    "gpu": ("gpu_power_w", "gpu_usd_per_hour"),
}
ALL_KEYS: Final = tuple(key for keys in _KEYS.values() for key in keys)
"""Names of all powers, prices and energies of wafers and GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """Power and price of one wafer or one GPU, and the energy per operation of a wafer.

    Attributes:
        kind: Whether the machine is a wafer or a GPU.
        sources: Numbers with unit, evidence grade, source and range, keyed as in a file for
            ``--economics``.
    """

    kind: MachineKind
    sources: Mapping[str, SourcedNumber]

    @property
    def power_w(self) -> SourcedNumber:
        """Wall-socket power of one machine while it serves requests, in W."""
        return self.sources[f"{self.kind}_power_w"]

    @property
    def usd_per_hour(self) -> SourcedNumber:
        """Price of one machine in USD per hour."""
        return self.sources[f"{self.kind}_usd_per_hour"]


Stated = str | Path | Mapping[str, Any]
"""Numbers that replace bundled ones: a TOML file, or a mapping with the content of such a file."""


def load_economics(
    wafer: WaferSpec, stated_values: Stated | None = None, usd_per_hour: float | None = None
) -> Economics:
    """Return the power, price and energies per operation of a wafer.

    Args:
        wafer: Wafer type whose bundled numbers are loaded.
        stated_values: Numbers that override the bundled ones.
        usd_per_hour: Price that overrides the bundled and the stated price, without a range.

    Raises:
        UnknownName: A key or machine in ``stated_values`` is unknown; the message suggests a
            similar one.
        BadWafer: The file cannot be read, or a number has the wrong unit or is out of bounds.
    """
    return _economics("wafer", (wafer.name, wafer.generation), stated_values, usd_per_hour)


def load_gpu_economics(
    gpu: GpuSpec, stated_values: Stated | None = None, usd_per_hour: float | None = None
) -> Economics | None:
    """Return the power and price of a GPU, or None if either is unknown.

    Args:
        gpu: Capacities and rates of the GPU.
        stated_values: Numbers that override the bundled ones.
        usd_per_hour: Price that overrides the bundled and the stated price, without a range.

    Raises:
        UnknownName: A key or machine in ``stated_values`` is unknown; the message suggests a
            similar one.
        BadWafer: The file cannot be read, a number has the wrong unit or is out of bounds, or a
            price is given for a GPU whose power is unknown.
    """
    economics = _economics("gpu", (gpu.name,), stated_values, usd_per_hour)
    missing_keys = [key for key in _KEYS["gpu"] if key not in economics.sources]
    if missing_keys and usd_per_hour is not None:
        message = f"{gpu.name}: its price is given, but {missing_keys[0]} is not; give it in a file of --economics"
        raise BadWafer(message)
    return None if missing_keys else economics


def _economics(
    kind: MachineKind, names: Sequence[str], stated_values: Stated | None, usd_per_hour: float | None
) -> Economics:
    """Return all known numbers for a machine: power, price and energies.

    Args:
        kind: Whether the machine is a wafer or a GPU.
        names: Names that files use for the machine, with the preferred name first.
        stated_values: Numbers that override the bundled ones.
        usd_per_hour: Price that overrides the bundled and the stated price.
    """
    sources = _read(_BUNDLED, kind, {*bundled_wafers(), *GENERATIONS, *GPU_PRESETS.bundled_names()}, names)
    if stated_values is not None:
        sources |= _read(stated_values, kind, {*_machines(kind), *names}, names)
    if usd_per_hour is not None:
        key = f"{kind}_usd_per_hour"
        sources[key] = SourcedNumber(value=usd_per_hour, unit=unit_of(key), grade="U", source="given")
    return Economics(kind=kind, sources=sources)


def check_stated(place: str, table: Mapping[str, Any]) -> None:
    """Check a table of powers, prices and energies, for all machines that it names.

    Args:
        place: Origin of the table, for messages.
        table: The numbers, with the keys of an economics file.

    Raises:
        UnknownName: A key or machine is unknown; the message suggests a similar one.
        BadWafer: A value is not a number, has the wrong unit, or is out of bounds.
    """
    for key, raw_value in table.items():
        machines = _machines("gpu" if key in _KEYS["gpu"] else "wafer")
        for name, number in _entries(place, key, raw_value, machines).items():
            read_number(place, name, number, float, "")


def _read(
    stated_values: Stated, kind: MachineKind, machines: Collection[str], names: Sequence[str]
) -> dict[str, SourcedNumber]:
    """Return the numbers that a file or table states for one machine.

    Args:
        stated_values: The file or table.
        kind: Whether the machine is a wafer or a GPU.
        machines: Names of machines for which a number may be stated.
        names: Names of this machine, with the preferred name first.
    """
    is_table = isinstance(stated_values, Mapping)
    place = "economics" if is_table else str(stated_values)
    default_source = "" if stated_values == _BUNDLED else "given" if is_table else f"set in {stated_values}"
    table = stated_values if isinstance(stated_values, Mapping) else read_toml(Path(stated_values), BadWafer)
    numbers = {}
    for key, value in table.items():
        if key not in _KEYS[kind] and key in ALL_KEYS:
            continue
        entries = _entries(place, key, value, machines)
        name = next((name for name in (key, *(f"{key}.{machine}" for machine in names)) if name in entries), None)
        if name is not None:
            numbers[key] = read_number(place, name, entries[name], float, default_source)
    return numbers


def _machines(kind: MachineKind) -> set[str]:
    """Return the names of machines for which a user's file may state numbers."""
    return {*known_gpus()} if kind == "gpu" else {*known_wafers(), *GENERATIONS}


def _entries(place: str, key: str, value: Any, machines: Collection[str]) -> dict[str, Any]:
    """Return the numbers under a key of an economics file, keyed by ``KEY`` or ``KEY.MACHINE``.

    The file states either one number for all machines, or a table with a number for each machine.

    Raises:
        UnknownName: The key or a machine is unknown.
    """
    if key not in ALL_KEYS:
        raise UnknownName("key", key, ALL_KEYS, place=place)
    if isinstance(value, dict) and "value" in value:
        return {key: value}
    return entries_by(machines, "GPU" if key in _KEYS["gpu"] else "wafer", place, key, value)
