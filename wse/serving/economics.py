"""Assumptions about power, price and energy: from the bundled file, or from a user's that overrides a part of them.

A file gives a number plainly or as a table (`wse.hardware.number_file`), for all wafers or by wafer:
``wafer_power_w = { wse2 = 20_000, cs4 = 30_000 }``. A wafer that is not named takes the number of its generation.
Numbers of GPUs are by GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml
from wse.gpus.load import known_gpus
from wse.gpus.spec import GpuSpec
from wse.hardware.load import known_wafers
from wse.hardware.number import SourcedNumber, numeric_fields, weakest
from wse.hardware.number_file import read_number
from wse.hardware.spec import GENERATIONS, WaferSpec

_BUNDLED: Final = Path(__file__).parents[1] / "data" / "economics.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """The assumptions about one wafer. ``sources`` has each number's unit, grade, source and range."""

    wafer_power_w: float  # at the wall, of the system around one wafer, at its peak
    wafer_usd_per_hour: float  # all-in: capital, power, housing
    sram_read_joules_per_bit: float
    sram_write_joules_per_bit: float
    mac_fp16_joules: float  # one multiply-add
    mac_fp16_fp32_joules: float  # fp16 × fp16 into fp32
    mac_fp32_joules: float
    hop_joules_per_wavelet: float
    ramp_joules_per_wavelet: float  # one crossing between router and compute element
    issue_joules: float  # one vector operation
    idle_w_per_pe: float
    wall_ratio: float  # power at the wall over power at the PEs
    sources: Mapping[str, SourcedNumber]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEconomics:
    """The assumptions about one GPU. ``sources`` has each number's unit, grade, source and range."""

    gpu_power_w: float  # of a GPU while it serves
    gpu_usd_per_hour: float  # rent
    sources: Mapping[str, SourcedNumber]


Assumptions = TypeVar("Assumptions", Economics, GpuEconomics)


Stated = str | Path | Mapping[str, Any]
"""Numbers in place of the bundled ones: a TOML file, or what such a file holds."""


def load_gpu_economics(gpu: GpuSpec, stated: Stated | None = None) -> GpuEconomics | None:
    """The assumptions for a GPU as of `load_economics`; None for one whose power or price is nowhere stated."""
    machines = {*known_gpus(), gpu.name}
    sources = _read(_BUNDLED, GpuEconomics, machines, (gpu.name,))
    if stated is not None:
        sources |= _read(stated, GpuEconomics, machines, (gpu.name,))
    if len(sources) < len(numeric_fields(GpuEconomics)):
        return None
    return GpuEconomics(**{key: source.value for key, source in sources.items()}, sources=sources)


def load_economics(wafer: WaferSpec, stated: Stated | None = None) -> Economics:
    """The assumptions for ``wafer``: the bundled ones, with the numbers that are ``stated`` in place of theirs.

    Raises:
        UnknownName: an unknown key or wafer in the file; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is in another unit or out of bounds.
    """
    machines, names = {*known_wafers(), *GENERATIONS, wafer.name}, (wafer.name, wafer.generation)
    sources = _read(_BUNDLED, Economics, machines, names)
    if stated is not None:
        sources |= _read(stated, Economics, machines, names)
    return Economics(**{key: source.value for key, source in sources.items()}, sources=sources)


def spread(
    value: Callable[[Assumptions], float], economics: Assumptions, used: Iterable[str], unit: str
) -> SourcedNumber:
    """A value that rises with each of the numbers ``used``, with its range, weakest grade and their sources.

    The range comes of all numbers at the lower, or all at the upper end of theirs.
    """
    numbers = {name: economics.sources[name] for name in used}
    at_low, at_high = (_at_end(economics, numbers, end) for end in (0, 1))
    return SourcedNumber(
        value=value(economics),
        unit=unit,
        grade=weakest(number.grade for number in numbers.values()),
        source="; ".join(f"{name} {number.value:g} {number.unit}: {number.source}" for name, number in numbers.items()),
        range=(value(at_low), value(at_high)),
    )


def _at_end(economics: Assumptions, numbers: Mapping[str, SourcedNumber], end: int) -> Assumptions:
    """The assumptions with each of ``numbers`` at the lower (0) or upper (1) end of its range."""
    values: dict[str, Any] = {name: number.range[end] for name, number in numbers.items() if number.range}
    return replace(economics, **values)


def check_stated(place: str, table: Mapping[str, Any]) -> None:
    """Check numbers that are stated in a table, for whatever machine; errors begin with ``place``.

    Raises:
        UnknownName: an unknown key or machine; the nearest known one is named.
        BadWafer: a number is none, in another unit or out of bounds.
    """
    for key, stated in table.items():
        if key not in _FIELDS:
            raise UnknownName("key", key, _FIELDS, where=place)
        machines = {*known_gpus()} if key in numeric_fields(GpuEconomics) else {*known_wafers(), *GENERATIONS}
        names = machines.intersection(stated) if isinstance(stated, Mapping) else ()
        for name in names or ("",):
            chosen, number = _number_for(place, key, stated, machines, (name,))
            read_number(place, chosen, number, _FIELDS[key], "")


def _read(stated: Stated, kind: type[Any], machines: Collection[str], names: Sequence[str]) -> dict[str, SourcedNumber]:
    """The numbers that are stated for a machine: of a kind, under the first of its names that there is."""
    is_table = isinstance(stated, Mapping)
    place = "economics" if is_table else str(stated)
    default_source = "" if stated == _BUNDLED else "given" if is_table else f"set in {stated}"
    table = stated if isinstance(stated, Mapping) else read_toml(Path(stated), BadWafer)
    fields, numbers = numeric_fields(kind), {}
    for key, value in table.items():
        if key not in _FIELDS:
            raise UnknownName("key", key, _FIELDS, where=place)
        if key not in fields:
            continue
        name, chosen = _number_for(place, key, value, machines, names)
        if chosen is not None:
            numbers[key] = read_number(place, name, chosen, fields[key], default_source)
    return numbers


_FIELDS: Final = numeric_fields(Economics) | numeric_fields(GpuEconomics)


def _number_for(place: str, key: str, value: Any, machines: Collection[str], names: Sequence[str]) -> tuple[str, Any]:
    """The name of the number that holds for a machine, and what the file gives for it; None where it gives nothing."""
    if not isinstance(value, dict) or "value" in value or value.keys().isdisjoint(machines):
        return key, value
    word = "GPU" if key in numeric_fields(GpuEconomics) else "wafer"
    for machine in value:
        if machine not in machines:
            raise UnknownName(word, machine, machines, where=f"{place}: {key}")
    machine = next((name for name in names if name in value), names[-1])
    return f"{key}.{machine}", value.get(machine)
