"""Wafers and software profiles from presets and from the user's TOML files.

A user's file gives every field, or ``base = "wse2"`` and the fields that differ. A field is a plain number in
the unit of its name, or a table: ``hop_cycles = { value = 2, unit = "cycle", grade = "M", source = "..." }``. A wafer
says in ``generation`` whose software costs apply to it, and with ``announced = true`` that nobody has measured one; a
software profile may give a number by generation: ``relay_cycles = { wse2 = 14, wse3 = 5 }``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from wse.errors import BadWafer, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.number_file import read_number
from wse.hardware.spec import GENERATIONS, SoftwareProfile, WaferSpec
from wse.known_names import known_name

Values = tuple[tuple[str, float], ...]
"""Numbers by field that take the place of a file's: as data that can be compared and sent."""

LONGEST_NAME: Final = 64
_HERE: Final = Path(__file__).parent

Spec = TypeVar("Spec", WaferSpec, SoftwareProfile)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[Spec]):
    """The traits in which files of wafers and of software profiles differ."""

    word: str
    folder: Path
    spec: type[Spec]
    base: str  # what a message suggests to begin with
    texts: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self.folder.glob("*.toml")))


_WAFERS_OF_SYSTEMS: Final = {"cs2": "wse2", "cs3": "wse3"}  # names of machines, which people give for their wafers
_WAFER: Final = _Kind("wafer", _HERE / "presets", WaferSpec, "wse2", ("generation", "announced"))
_SOFTWARE: Final = _Kind("software profile", _HERE / "software", SoftwareProfile, "academic")


def known_wafers() -> tuple[str, ...]:
    """Names of the wafer presets."""
    return _WAFER.names()


def known_software() -> tuple[str, ...]:
    """Names of the software profiles."""
    return _SOFTWARE.names()


def load_wafer(name_or_path: str | Path, values: Values = ()) -> WaferSpec:
    """The wafer of a preset's name, without regard to case, or of a TOML file, some numbers replaced.

    A preset wins over a file so named.

    Raises:
        UnknownName: no such preset, or an unknown key in the file or the values; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is missing, in another unit or out of bounds.
    """
    where = str(name_or_path)
    texts, numbers = _read(_WAFER, where)
    fields: dict[str, Any] = {key: number.value for key, number in _with_values(_WAFER, where, numbers, values).items()}
    wafer = WaferSpec(**texts, **fields)
    fixed = wafer.runtime_bytes_per_pe + wafer.task_table_bytes_per_pe
    if fixed >= wafer.sram_bytes_per_pe:
        msg = (
            f"{where}: runtime and task table take {fixed:,} bytes of "
            f"sram_bytes_per_pe = {wafer.sram_bytes_per_pe:,}; "
            "give the PE more SRAM, or lower runtime_bytes_per_pe or task_table_bytes_per_pe"
        )
        raise BadWafer(msg)
    if wafer.reserved_colours >= wafer.colours:
        msg = (
            f"{where}: reserved_colours = {wafer.reserved_colours} leaves none of colours = {wafer.colours}; "
            "lower the first or raise the second"
        )
        raise BadWafer(msg)
    return wafer


def load_software(name_or_path: str | Path, generation: str, values: Values = ()) -> SoftwareProfile:
    """The costs on a generation of the software profile of a name or of a TOML file; the rest as of `load_wafer`."""
    where = str(name_or_path)
    texts, numbers = _read(_SOFTWARE, where)
    numbers = _with_values(_SOFTWARE, where, numbers, values)
    costs: dict[str, Any] = {
        key: (numbers.get(f"{key}.{generation}") or numbers[key]).value for key in numeric_fields(SoftwareProfile)
    }
    return SoftwareProfile(name=texts["name"], **costs)


def check_value(spec: type[WaferSpec | SoftwareProfile], where: str, key: str, value: float) -> None:
    """Raise BadWafer for a number that ``key`` cannot have in any wafer or profile; ``where`` it was given."""
    read_number(where, key, value, numeric_fields(spec)[key], "")


def provenance(name_or_path: str | Path, values: Values = ()) -> dict[str, SourcedNumber]:
    """The source of each number of a wafer, or of a software profile if the name is one, with some replaced.

    A number given by generation has its key followed by a point and the generation. A file counts as a software
    profile if it is based on one or has one of its fields.
    Errors as of `load_wafer`.
    """
    where = str(name_or_path)
    kind: _Kind[Any] = _SOFTWARE if known_name(where, _SOFTWARE.names()) else _WAFER
    if known_name(where, (*_WAFER.names(), *_SOFTWARE.names())) is None and names_toml_file(where):
        table = read_toml(Path(where), BadWafer)
        if table.get("base") in _SOFTWARE.names() or table.keys() & numeric_fields(SoftwareProfile).keys():
            kind = _SOFTWARE
    return _with_values(kind, where, _read(kind, where)[1], values)


def _read(kind: _Kind[Any], where: str) -> tuple[dict[str, Any], dict[str, SourcedNumber]]:
    """The fields that are no numbers, and every field's number in the order of the dataclass."""
    name = known_name(where, kind.names())
    if name is not None:
        texts, numbers = _read_preset(kind, name)
        return dict(texts), dict(numbers)
    if names_toml_file(where):
        return _read_file(kind, Path(where), f"set in {where}")
    raise UnknownName(
        kind.word, where, kind.names(), meant=_WAFERS_OF_SYSTEMS.get(where.casefold().replace("-", ""), "")
    )


@cache
def _read_preset(kind: _Kind[Any], name: str) -> tuple[dict[str, Any], dict[str, SourcedNumber]]:
    """The fields of a preset, whose file stays as it is while a process runs."""
    return _read_file(kind, kind.folder / f"{name}.toml", "")


def _read_file(kind: _Kind[Any], path: Path, default_source: str) -> tuple[dict[str, Any], dict[str, SourcedNumber]]:
    """The fields that a file and the preset that it is based on give."""
    table = read_toml(path, BadWafer)
    name = table.pop("name", path.stem)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        msg = f"{path}: name = {short_repr(name)}: give a name of 1 to {LONGEST_NAME} printable characters"
        raise BadWafer(msg)
    fields = numeric_fields(kind.spec)
    texts: dict[str, Any] = {}
    numbers: dict[str, SourcedNumber] = {}
    base = table.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or base not in kind.names():
            raise UnknownName("base " + kind.word, str(base), kind.names(), where=str(path))
        texts, numbers = _read(kind, base)
    if kind is _WAFER:
        texts["generation"] = _read_generation(path, table.pop("generation", texts.get("generation")))
        texts["announced"] = _read_announced(path, table.pop("announced", texts.get("announced", False)))
    for key, stated in table.items():
        if key not in fields:
            raise UnknownName("key", key, [*fields, "name", "base", *kind.texts], where=str(path))
        by_generation = kind is _SOFTWARE and isinstance(stated, dict) and not stated.keys().isdisjoint(GENERATIONS)
        for name_, value in _by_generation(path, key, stated).items() if by_generation else [(key, stated)]:
            numbers[name_] = read_number(path, name_, value, fields[key], default_source)
        if not by_generation:
            numbers = {k: number for k, number in numbers.items() if not k.startswith(f"{key}.")}
    missing = [key for key in fields if key not in numbers and any(f"{key}.{g}" not in numbers for g in GENERATIONS)]
    if missing:
        more = f" and {len(missing) - 1} more keys" if len(missing) > 1 else ""
        msg = (
            f"{path}: has no {missing[0]}{more}; add them, "
            f'or begin with base = "{kind.base}" and give only what differs'
        )
        raise BadWafer(msg)
    keys = [k for key in fields for k in (key, *(f"{key}.{g}" for g in GENERATIONS)) if k in numbers]
    return texts | {"name": name}, {key: numbers[key] for key in keys}


def _with_values(
    kind: _Kind[Any], where: str, numbers: dict[str, SourcedNumber], values: Values
) -> dict[str, SourcedNumber]:
    """The numbers of ``where``, with others in place of some, for all generations; those are checked as a file's."""
    fields = numeric_fields(kind.spec)
    for key, _ in values:
        if key not in fields:
            raise UnknownName("key", key, fields, where=f"{kind.word} {where}")
    replacements = {key: read_number(f"{kind.word} {where}", key, value, fields[key], "") for key, value in values}
    return {key: number for key, number in numbers.items() if key.partition(".")[0] not in replacements} | replacements


def _read_generation(path: Path, stated: Any) -> str:
    """The generation whose software costs apply to a wafer."""
    if stated is None:
        msg = f'{path}: has no generation; add generation = "{GENERATIONS[0]}", or whichever\'s software costs apply'
        raise BadWafer(msg)
    if not isinstance(stated, str) or stated not in GENERATIONS:
        raise UnknownName("generation", str(stated), GENERATIONS, where=str(path))
    return stated


def _read_announced(path: Path, stated: Any) -> bool:
    """Whether nobody has measured a wafer."""
    if not isinstance(stated, bool):
        msg = f"{path}: announced = {short_repr(stated)}: give true (nobody has measured such a wafer) or false"
        raise BadWafer(msg)
    return stated


def _by_generation(path: Path, key: str, table: dict[str, Any]) -> dict[str, Any]:
    """The values that a number's table gives for each generation, by the name that provenance has for them."""
    for generation in table:
        if generation not in GENERATIONS:
            raise UnknownName("generation", generation, GENERATIONS, where=f"{path}: {key}")
    return {f"{key}.{generation}": value for generation, value in table.items()}
