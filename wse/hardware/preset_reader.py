"""Read presets: TOML files with the numbers of a machine or its software.

There are four kinds of presets: wafers, software profiles, GPUs and serving stacks. Bundled presets
are the files in the folder of their kind. Other packages add presets through entry points in the
kind's group. The object of such an entry point is the `pathlib.Path` of a TOML file. Users can also
give the path of their own file.

A file states every field, or ``base = "wse2"`` and the fields that differ from that preset. A field
is a plain number in the unit of its name, or a table: ``hop_cycles = { value = 2, unit = "cycle",
grade = "M", source = "..." }``. In some kinds of presets, a number may differ by generation of the
machine: ``relay_cycles = { wse2 = 14, wse3 = 5 }``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wse.errors import BadWafer, UnknownName
from wse.files import names_toml_file, read_toml
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.number_file import entries_by, read_number
from wse.known_names import known_name
from wse.plugins import with_plugins, wrong_type

Numbers = dict[str, SourcedNumber]
"""Numbers keyed by field. A number for one generation has the key ``FIELD.GENERATION``."""


class PresetContent(NamedTuple):
    """Checked fields of a preset file, such as a file that describes a wafer.

    Attributes:
        texts: Fields that are not numbers, keyed by name.
        numbers: Numbers with their units and sources, in the order of the dataclass fields.
    """

    texts: dict[str, Any]
    numbers: Numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class PresetKind:
    """A kind of preset file, such as the files that describe wafers.

    Attributes:
        word: Name of the kind for messages, such as "wafer".
        group: Entry-point group through which other packages add presets.
        folder: Folder of the bundled files.
        spec: Dataclass whose int and float fields are the numbers of a file.
        texts: For each field that is not a number, a function that checks it, given the file, the
            field and the value. If a file has no ``name``, the file's own name is used.
        missing: Function that returns the error message for missing fields, given their names.
        defaults: Default values of string fields that a file may omit.
        generations: Generations for which a file may contain separate values of a number.
        aliases: Other names that users often give, mapped to the presets that they mean. They are
            suggested in the error message and not accepted.
    """

    word: str
    group: str
    folder: Path
    spec: type[Any]
    texts: Mapping[str, Callable[[Path, str, Any], Any]]
    missing: Callable[[Sequence[str]], str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    generations: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Return the names of all presets, bundled or from packages, in alphabetical order.

        Raises:
            BadInput: An entry point of a package cannot be used.
        """
        return tuple(sorted(_files(self)))

    def bundled_names(self) -> tuple[str, ...]:
        """Return the names of the bundled presets in alphabetical order."""
        return tuple(_bundled_files(self))

    def bundled_name(self, text: str) -> str | None:
        """Find a bundled preset by its name, ignoring case.

        Returns:
            The exact name of the preset, or None if no bundled preset has this name.
        """
        return known_name(text, _bundled_files(self))

    def read(self, name_or_path: str) -> PresetContent:
        """Read a preset, given by its case-insensitive name, or a TOML file.

        A bundled preset takes precedence over a file of the same name, and a file over a preset of
        an installed package. Installed packages are searched only if there is neither a bundled
        preset nor a file.

        Args:
            name_or_path: Name or path.

        Raises:
            UnknownName: There is no such preset, or the file has an unknown key. The message
                suggests a similar name.
            BadWafer: The file cannot be read, or a number is missing, in the wrong unit or out of
                bounds.
        """
        name = self.bundled_name(name_or_path)
        if name is None and names_toml_file(name_or_path):
            return _read_file(self, Path(name_or_path), f"set in {name_or_path}")
        if name is None:
            name = known_name(name_or_path, self.names())
        if name is None:
            raise UnknownName(
                self.word,
                name_or_path,
                self.names(),
                suggested_name=self.aliases.get(name_or_path.casefold().replace("-", ""), ""),
            )
        texts, numbers = _read_preset(self, name)
        return PresetContent(dict(texts), dict(numbers))

    def values(self, numbers: Numbers, generation: str = "") -> dict[str, Any]:
        """Return the value of every number field, keyed by field name.

        Args:
            numbers: Numbers of a preset.
            generation: Wafer generation, for numbers that have a separate value for each
                generation.
        """
        return {key: (numbers.get(f"{key}.{generation}") or numbers[key]).value for key in numeric_fields(self.spec)}


@cache
def _bundled_files(kind: PresetKind) -> Mapping[str, Path]:
    """Return the files of one kind of preset that are bundled with wse, keyed by preset name.

    The result is cached, so the files must not change.
    """
    return {path.stem: path for path in sorted(kind.folder.glob("*.toml"))}


@cache
def _files(kind: PresetKind) -> Mapping[str, Path]:
    """Return the files of all presets of a kind, keyed by preset name.

    Presets from installed packages are included.
    """
    return with_plugins(kind.group, _bundled_files(kind), _preset_name)


def _preset_name(plugin: Any) -> tuple[str]:
    """Return the name of a preset that an installed package adds: the name of its TOML file.

    Returns:
        A tuple with one name, because plug-ins of other kinds may have several names.

    Raises:
        TypeError: The object of the entry point is not a path.
    """
    if not isinstance(plugin, Path):
        raise wrong_type(plugin, "pathlib.Path of a TOML file")
    return (plugin.stem,)


@cache
def _read_preset(kind: PresetKind, name: str) -> PresetContent:
    """Read a preset that is bundled or from an installed package. The result is cached."""
    path = _bundled_files(kind).get(name) or _files(kind)[name]
    return _read_file(kind, path, "")


def _read_file(kind: PresetKind, path: Path, default_source: str) -> PresetContent:
    """Read a preset file and the preset that it is based on.

    1. Read the base, if the file names one.
    2. Check the strings and numbers of the file, which override the base's.
    3. Check that no field is missing.

    Args:
        kind: Kind of the preset.
        path: Path of the file.
        default_source: Source of numbers for which the file does not specify a source.
    """
    table = read_toml(path, BadWafer)
    fields = numeric_fields(kind.spec)
    texts, numbers = PresetContent(dict(kind.defaults), {})
    base = table.pop("base", None)  # 1
    if base is not None:
        if not isinstance(base, str) or (base not in kind.bundled_names() and base not in kind.names()):
            raise UnknownName("base " + kind.word, str(base), kind.names(), place=str(path))
        texts, numbers = kind.read(base)
    texts["name"] = path.stem  # 2
    for key, read in kind.texts.items():
        if key in table:
            texts[key] = read(path, key, table.pop(key))
    for key, raw_value in table.items():
        if key not in fields:
            raise UnknownName("key", key, [*fields, *kind.texts, "base"], place=str(path))
        entries = entries_by(kind.generations, "generation", str(path), key, raw_value)
        if key in entries:
            numbers = {name: number for name, number in numbers.items() if not name.startswith(f"{key}.")}
        for name, value in entries.items():
            numbers[name] = read_number(path, name, value, fields[key], default_source)
    by_generation = {key: [f"{key}.{generation}" for generation in kind.generations] for key in fields}
    missing_keys = [key for key in kind.texts if key not in texts]  # 3
    missing_keys += [
        key
        for key, names in by_generation.items()
        if key not in numbers and (not names or any(name not in numbers for name in names))
    ]
    if missing_keys:
        raise BadWafer(f"{path}: {kind.missing(missing_keys)}")
    ordered = [name for key, names in by_generation.items() for name in (key, *names) if name in numbers]
    return PresetContent(texts, {name: numbers[name] for name in ordered})
