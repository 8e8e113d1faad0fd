"""Load wafers and software profiles from presets and user files.

The field ``generation`` of a wafer names the generation whose software costs apply to it. With
``announced = true``, a file states that nobody has measured such a wafer. Numbers of a software
profile may differ by generation. See `wse.hardware.preset_reader` for the format.
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
"""Numbers by field that override a file's numbers, as data that can be compared and sent."""

LONGEST_NAME: Final = 64
_HERE: Final = Path(__file__).parent


def _read_name(path: Path, key: str, raw_value: Any) -> str:
    """Return the name in a file after checking that it is printable and not too long."""
    if not isinstance(raw_value, str) or not 0 < len(raw_value) <= LONGEST_NAME or not raw_value.isprintable():
        raise BadWafer(
            f"{path}: {key} = {short_repr(raw_value)}: give a name of 1 to {LONGEST_NAME} printable characters"
        )
    return raw_value


def _read_generation(path: Path, key: str, raw_value: Any) -> str:
    """Return the wafer generation in a file after checking that it is known."""
    if not isinstance(raw_value, str) or raw_value not in GENERATIONS:
        raise UnknownName(key, str(raw_value), GENERATIONS, place=str(path))
    return raw_value


def _read_announced(path: Path, key: str, raw_value: Any) -> bool:
    """Return the Boolean value of ``announced`` in a file, after checking its type.

    True means that the vendor has announced the wafer but nobody has measured one.
    """
    if not isinstance(raw_value, bool):
        raise BadWafer(
            f"{path}: {key} = {short_repr(raw_value)}: give true (nobody has measured such a wafer) or false"
        )
    return raw_value


def _missing(base: str, keys: Sequence[str]) -> str:
    """Return the error message for missing fields in a file.

    Args:
        base: Preset that the message suggests as the base of the file.
        keys: Names of the missing fields, at least one. The message names the first.
    """
    if keys[0] == "generation":
        return f'has no generation; add generation = "{GENERATIONS[0]}", or the one whose software costs apply'
    further_keys = f" and {len(keys) - 1} more keys" if len(keys) > 1 else ""
    return f'has no {keys[0]}{further_keys}; add them, or begin with base = "{base}" and give only what differs'


_WAFER: Final = PresetKind(
    word="wafer",
    group=WAFERS,
    folder=_HERE / "presets",
    spec=WaferSpec,
    texts={"name": _read_name, "generation": _read_generation, "announced": _read_announced},
    missing=partial(_missing, "wse2"),
    defaults={"announced": False},
    aliases={"cs2": "wse2", "cs3": "wse3"},  # names of systems, often given instead of their wafers
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
    """Return the names of all wafer presets, bundled or from installed packages."""
    return _WAFER.names()


def bundled_wafers() -> tuple[str, ...]:
    """Return the names of the bundled wafer presets."""
    return _WAFER.bundled_names()


def known_software() -> tuple[str, ...]:
    """Return the names of all software profiles, bundled or from installed packages.

    A software profile contains the costs of the software on a PE, such as cycles and bytes.
    """
    return _SOFTWARE.names()


def load_wafer(name_or_path: str | Path, values: Values = ()) -> WaferSpec:
    """Return the wafer that a preset or a TOML file describes.

    A bundled preset takes precedence over a file of the same name. Its name is not case-sensitive.

    Args:
        name_or_path: Name of the preset, or path of the file.
        values: Numbers that override the file's numbers.

    Raises:
        UnknownName: There is no such preset, or an unknown key in the file or the values.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit, out of bounds,
            or contradicts another number.
    """
    source_name = str(name_or_path)
    texts, numbers = _WAFER.read(source_name)
    wafer = WaferSpec(**texts, **_WAFER.values(_with_values(_WAFER, source_name, numbers, values)))
    fixed = wafer.runtime_bytes_per_pe + wafer.task_table_bytes_per_pe
    if fixed >= wafer.sram_bytes_per_pe:
        raise BadWafer(
            f"{source_name}: runtime and task table take {fixed:,} bytes of "
            f"sram_bytes_per_pe = {wafer.sram_bytes_per_pe:,}; "
            "give the PE more SRAM, or lower runtime_bytes_per_pe or task_table_bytes_per_pe"
        )
    if wafer.reserved_colours >= wafer.colours:
        raise BadWafer(
            f"{source_name}: reserved_colours = {wafer.reserved_colours} leaves none of colours = {wafer.colours}; "
            "lower the first or raise the second"
        )
    return wafer


def load_software(name_or_path: str | Path, generation: str, values: Values = ()) -> SoftwareProfile:
    """Return the software costs of a wafer generation, read from a software profile.

    Args:
        name_or_path: Name of the profile, or path of a TOML file.
        generation: Generation of the wafer, one of ``GENERATIONS``.
        values: Numbers that override the file's numbers, for all generations.

    Raises:
        UnknownName: There is no such profile, or an unknown key in the file or the values.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit, or out of
            bounds.
    """
    source_name = str(name_or_path)
    texts, numbers = _SOFTWARE.read(source_name)
    return SoftwareProfile(
        **texts, **_SOFTWARE.values(_with_values(_SOFTWARE, source_name, numbers, values), generation)
    )


def check_value(spec: type[WaferSpec | SoftwareProfile], origin: str, key: str, value: float) -> None:
    """Raise BadWafer if a value of a wafer or of a software profile is out of bounds.

    Args:
        spec: `WaferSpec` or `SoftwareProfile`.
        origin: Option or file with the value, for the message.
        key: Name of the field.
        value: Value to check.
    """
    read_number(origin, key, value, numeric_fields(spec)[key], "")


def provenance(name_or_path: str | Path, values: Values = ()) -> dict[str, SourcedNumber]:
    """Return each number of a wafer or a software profile with its unit, evidence grade and source.

    A TOML file is read as a software profile if its base is a software profile, or if it contains
    a field of `SoftwareProfile`. Otherwise it is read as a wafer.

    Args:
        name_or_path: Name of a wafer or software profile, or path of a TOML file.
        values: Numbers that override the file's numbers.

    Returns:
        The numbers, keyed by field name. The key of a number that is valid for one generation only
        is ``FIELD.GENERATION``.

    Raises:
        UnknownName: There is no such preset, or an unknown key in the file or the values.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit, or out of
            bounds.
    """
    source_name = str(name_or_path)
    kind = _kind_of(source_name)
    return _with_values(kind, source_name, kind.read(source_name).numbers, values)


def _kind_of(name_or_path: str) -> PresetKind:
    """Return whether a name or file describes a wafer or a software profile.

    An unknown name is treated as a wafer.
    """
    if _WAFER.bundled_name(name_or_path):
        return _WAFER
    if _SOFTWARE.bundled_name(name_or_path):
        return _SOFTWARE
    if not names_toml_file(name_or_path):
        return _SOFTWARE if known_name(name_or_path, _SOFTWARE.names()) else _WAFER
    table = read_toml(Path(name_or_path), BadWafer)
    is_software = table.get("base") in _SOFTWARE.names() or table.keys() & numeric_fields(SoftwareProfile).keys()
    return _SOFTWARE if is_software else _WAFER


def _with_values(kind: PresetKind, source_name: str, numbers: Numbers, values: Values) -> Numbers:
    """Return a copy of the numbers of a preset, in which some numbers are replaced.

    A replacement applies to all generations, even if the preset has a number for each generation.

    Args:
        kind: Kind of the preset, wafer or software profile.
        source_name: Name or path of the preset, for messages.
        numbers: Numbers of the preset.
        values: Replacements, which are checked like the numbers of a file.

    Raises:
        UnknownName: A replacement has an unknown field.
        BadWafer: A replacement is out of bounds.
    """
    fields = numeric_fields(kind.spec)
    for key, _ in values:
        if key not in fields:
            raise UnknownName("key", key, fields, place=f"{kind.word} {source_name}")
    replacements = {
        key: read_number(f"{kind.word} {source_name}", key, value, fields[key], "") for key, value in values
    }
    return {key: number for key, number in numbers.items() if key.partition(".")[0] not in replacements} | replacements
