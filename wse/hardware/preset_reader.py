"""Presets: TOML files that give the numbers of a machine or of its software, each with unit, grade and source.

Wafers, software profiles, GPUs and serving stacks are presets of four kinds. A preset is bundled by being in the folder
of its kind. Another Python package adds a preset with an entry point in the group of the kind, whose object is the
`pathlib.Path` of a TOML file. A user's own file is given by its path.

A file gives every field, or ``base = "wse2"`` and the fields that differ. A field is a plain number in the unit of its
name, or a table: ``hop_cycles = { value = 2, unit = "cycle", grade = "M", source = "..." }``. Of some kinds a number
may differ by generation of the machine: ``relay_cycles = { wse2 = 14, wse3 = 5 }``.
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
from wse.plugins import with_plugins

Numbers = dict[str, SourcedNumber]
"""Numbers by field; a number that is given by generation has a point and the generation after its field."""


class PresetContent(NamedTuple):
    """The contents of a preset: its fields that are not numbers, and its numbers in the order of the dataclass."""

    texts: dict[str, Any]
    numbers: Numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class PresetKind:
    """A kind of preset.

    Attributes:
        word: What messages call a preset of this kind.
        group: Group of the entry points by which other packages add presets.
        folder: Folder of the bundled files.
        spec: Dataclass whose int and float fields are the numbers of a file.
        texts: For each field that is no number the function that checks it, which is given the file, the field and
            the value. A file without ``name`` is named after itself.
        missing: Returns the message for the names of the fields that a file lacks, at least one.
        defaults: Values of texts that a file may leave out.
        generations: Generations for each of which a number may be given.
        meant: For names that people give by mistake the preset that they mean.
    """

    word: str
    group: str
    folder: Path
    spec: type[Any]
    texts: Mapping[str, Callable[[Path, str, Any], Any]]
    missing: Callable[[Sequence[str]], str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    generations: tuple[str, ...] = ()
    meant: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Return the names of all presets in alphabetical order, those of other packages among them.

        Raises:
            BadInput: a package has an entry point that cannot be used.
        """
        return tuple(sorted(_files(self)))

    def bundled_names(self) -> tuple[str, ...]:
        """Return the names of the presets in the folder of the kind, in alphabetical order."""
        return tuple(_bundled_files(self))

    def bundled_name(self, text: str) -> str | None:
        """Return the bundled preset that a text names, without regard to case; None where it names none."""
        return known_name(text, _bundled_files(self))

    def read(self, where: str) -> PresetContent:
        """Read the preset of a name, without regard to case, or a TOML file.

        A bundled preset wins over a file of its name, and a file over the preset of another package. Packages are
        asked only for a name that is neither.

        Raises:
            UnknownName: no such preset, or an unknown key in the file; the message suggests the nearest known one.
            BadWafer: the file cannot be read, or a number is missing, in another unit or out of bounds.
        """
        name = self.bundled_name(where)
        if name is None and names_toml_file(where):
            return _read_file(self, Path(where), f"set in {where}")
        if name is None:
            name = known_name(where, self.names())
        if name is None:
            raise UnknownName(
                self.word, where, self.names(), meant=self.meant.get(where.casefold().replace("-", ""), "")
            )
        texts, numbers = _read_preset(self, name)
        return PresetContent(dict(texts), dict(numbers))

    def values(self, numbers: Numbers, generation: str = "") -> dict[str, Any]:
        """Return the value of every number field, of a number that differs by generation that of ``generation``."""
        return {key: (numbers.get(f"{key}.{generation}") or numbers[key]).value for key in numeric_fields(self.spec)}


@cache
def _bundled_files(kind: PresetKind) -> Mapping[str, Path]:
    """Return the files of a kind's folder by name; they stay as they are while a process runs."""
    return {path.stem: path for path in sorted(kind.folder.glob("*.toml"))}


@cache
def _files(kind: PresetKind) -> Mapping[str, Path]:
    return with_plugins(kind.group, _bundled_files(kind), _preset_name)


def _preset_name(thing: Any) -> tuple[str]:
    if not isinstance(thing, Path):
        message = f"a {type(thing).__name__} is no pathlib.Path of a TOML file"
        raise TypeError(message)
    return (thing.stem,)


@cache
def _read_preset(kind: PresetKind, name: str) -> PresetContent:
    path = _bundled_files(kind).get(name) or _files(kind)[name]
    return _read_file(kind, path, "")


def _read_file(kind: PresetKind, path: Path, default_source: str) -> PresetContent:
    """Read the fields that a file and the preset that it is based on give."""
    table = read_toml(path, BadWafer)
    fields = numeric_fields(kind.spec)
    texts, numbers = PresetContent(dict(kind.defaults), {})
    base = table.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or (base not in kind.bundled_names() and base not in kind.names()):
            raise UnknownName("base " + kind.word, str(base), kind.names(), where=str(path))
        texts, numbers = kind.read(base)
    texts["name"] = path.stem
    for key, read in kind.texts.items():
        if key in table:
            texts[key] = read(path, key, table.pop(key))
    for key, stated in table.items():
        if key not in fields:
            raise UnknownName("key", key, [*fields, *kind.texts, "base"], where=str(path))
        entries = entries_by(kind.generations, "generation", str(path), key, stated)
        if key in entries:
            numbers = {name: number for name, number in numbers.items() if not name.startswith(f"{key}.")}
        for name, value in entries.items():
            numbers[name] = read_number(path, name, value, fields[key], default_source)
    by_generation = {key: [f"{key}.{generation}" for generation in kind.generations] for key in fields}
    missing = [key for key in kind.texts if key not in texts]
    missing += [
        key
        for key, names in by_generation.items()
        if key not in numbers and (not names or any(name not in numbers for name in names))
    ]
    if missing:
        message = f"{path}: {kind.missing(missing)}"
        raise BadWafer(message)
    ordered = [name for key, names in by_generation.items() for name in (key, *names) if name in numbers]
    return PresetContent(texts, {name: numbers[name] for name in ordered})
