"""Wafers and software profiles: presets and user files (`wse.hardware.preset_reader`) as specifications.

A wafer names in ``generation`` the generation whose software costs apply to it, and with ``announced = true`` says that
nobody has measured one. A number of a software profile may differ by generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from wse.errors import BadWafer, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.hardware.generations import GENERATIONS
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.number_file import read_number
from wse.hardware.preset_reader import Numbers, PresetKind
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.known_names import known_name
from wse.plugins import SOFTWARE, WAFERS

Values = tuple[tuple[str, float], ...]
"""Numbers by field that take the place of a file's: as data that can be compared and sent."""

LONGEST_NAME: Final = 64
_HERE: Final = Path(__file__).parent


def _read_name(path: Path, key: str, stated: Any) -> str:
    if not isinstance(stated, str) or not 0 < len(stated) <= LONGEST_NAME or not stated.isprintable():
        msg = f"{path}: {key} = {short_repr(stated)}: give a name of 1 to {LONGEST_NAME} printable characters"
        raise BadWafer(msg)
    return stated


def _read_generation(path: Path, key: str, stated: Any) -> str:
    if not isinstance(stated, str) or stated not in GENERATIONS:
        raise UnknownName(key, str(stated), GENERATIONS, where=str(path))
    return stated


def _read_announced(path: Path, key: str, stated: Any) -> bool:
    if not isinstance(stated, bool):
        msg = f"{path}: {key} = {short_repr(stated)}: give true (nobody has measured such a wafer) or false"
        raise BadWafer(msg)
    return stated


def _missing(base: str, keys: Sequence[str]) -> str:
    if keys[0] == "generation":
        return f'has no generation; add generation = "{GENERATIONS[0]}", or whichever\'s software costs apply'
    more = f" and {len(keys) - 1} more keys" if len(keys) > 1 else ""
    return f'has no {keys[0]}{more}; add them, or begin with base = "{base}" and give only what differs'


_WAFER: Final = PresetKind(
    word="wafer",
    group=WAFERS,
    folder=_HERE / "presets",
    spec=WaferSpec,
    texts={"name": _read_name, "generation": _read_generation, "announced": _read_announced},
    missing=partial(_missing, "wse2"),
    defaults={"announced": False},
    meant={"cs2": "wse2", "cs3": "wse3"},  # names of machines, which people give for their wafers
)
_SOFTWARE: Final = PresetKind(
    word="software profile",
    group=SOFTWARE,
    folder=_HERE / "software",
    spec=SoftwareProfile,
    texts={"name": _read_name},
    missing=partial(_missing, "academic"),
    generations=GENERATIONS,
)


def known_wafers() -> tuple[str, ...]:
    """Return the names of the wafer presets."""
    return _WAFER.names()


def bundled_wafers() -> tuple[str, ...]:
    """Return the names of the wafer presets, without those of other packages."""
    return _WAFER.bundled_names()


def known_software() -> tuple[str, ...]:
    """Return the names of the software profiles."""
    return _SOFTWARE.names()


def load_wafer(name_or_path: str | Path, values: Values = ()) -> WaferSpec:
    """Return the wafer of a preset's name, without regard to case, or of a TOML file, some numbers replaced.

    A preset wins over a file so named.

    Raises:
        UnknownName: no such preset, or an unknown key in the file or the values; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is missing, in another unit or out of bounds.
    """
    where = str(name_or_path)
    texts, numbers = _WAFER.read(where)
    wafer = WaferSpec(**texts, **_WAFER.values(_with_values(_WAFER, where, numbers, values)))
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
    """Return the costs on a generation of the software profile of a name or of a TOML file.

    The rest as of `load_wafer`.
    """
    where = str(name_or_path)
    texts, numbers = _SOFTWARE.read(where)
    return SoftwareProfile(**texts, **_SOFTWARE.values(_with_values(_SOFTWARE, where, numbers, values), generation))


def check_value(spec: type[WaferSpec | SoftwareProfile], where: str, key: str, value: float) -> None:
    """Raise BadWafer for a number that ``key`` cannot have in any wafer or profile; ``where`` it was given."""
    read_number(where, key, value, numeric_fields(spec)[key], "")


def provenance(name_or_path: str | Path, values: Values = ()) -> dict[str, SourcedNumber]:
    """Return the source of each number of a wafer, or of a software profile if the name is one, with some replaced.

    A number given by generation has its key followed by a point and the generation. A file counts as a software
    profile if it is based on one or has one of its fields.
    Errors as of `load_wafer`.
    """
    where = str(name_or_path)
    kind = _kind_of(where)
    return _with_values(kind, where, kind.read(where).numbers, values)


def _kind_of(where: str) -> PresetKind:
    """Return the kind of a preset or a file, wafers where it is neither."""
    if _WAFER.bundled_name(where):
        return _WAFER
    if _SOFTWARE.bundled_name(where):
        return _SOFTWARE
    if not names_toml_file(where):
        return _SOFTWARE if known_name(where, _SOFTWARE.names()) else _WAFER
    table = read_toml(Path(where), BadWafer)
    is_software = table.get("base") in _SOFTWARE.names() or table.keys() & numeric_fields(SoftwareProfile).keys()
    return _SOFTWARE if is_software else _WAFER


def _with_values(kind: PresetKind, where: str, numbers: Numbers, values: Values) -> Numbers:
    """Return the numbers of ``where``, with others instead of some, for all generations.

    Those are checked as a file's.
    """
    fields = numeric_fields(kind.spec)
    for key, _ in values:
        if key not in fields:
            raise UnknownName("key", key, fields, where=f"{kind.word} {where}")
    replacements = {key: read_number(f"{kind.word} {where}", key, value, fields[key], "") for key, value in values}
    return {key: number for key, number in numbers.items() if key.partition(".")[0] not in replacements} | replacements
