"""GPUs and serving stacks from presets and, GPUs and stacks alike, from the user's TOML files.

A user's file gives every field, or ``base = "h100"`` and the fields that differ. A field is a plain number in the unit
of its name, or a table with value, unit, grade, source and range. A GPU says in ``generation`` which kernels it has; a
stack may give a number by generation: ``expert_layer_s = { hopper = 33e-6, blackwell = 18e-6 }``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadWafer, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.number_file import read_number
from wse.known_names import known_name
from wse.serving.gpus.spec import GENERATIONS, GpuSpec, StackSpec

Numbers = dict[str, SourcedNumber]
_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class _Kind:
    """The traits in which files of GPUs and of stacks differ."""

    word: str
    folder: Path
    spec: type[GpuSpec | StackSpec]
    texts: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self.folder.glob("*.toml")))


_GPU: Final = _Kind("GPU", _HERE / "presets", GpuSpec, ("generation",))
_STACK: Final = _Kind("stack", _HERE / "stacks", StackSpec, ("title", "fitted_on"))


def known_gpus() -> tuple[str, ...]:
    """Names of the GPU presets."""
    return _GPU.names()


def known_stacks() -> tuple[str, ...]:
    """Names of the serving stacks."""
    return _STACK.names()


def load_gpu(name_or_path: str | Path) -> GpuSpec:
    """The GPU of a preset's name, without regard to case, or of a TOML file.

    Raises:
        UnknownName: no such preset, or an unknown key in the file; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is missing, in another unit or out of bounds.
    """
    texts, numbers = _read(_GPU, str(name_or_path))
    fields: dict[str, Any] = texts | {key: number.value for key, number in numbers.items()}
    return GpuSpec(**fields)


def load_stack(name_or_path: str | Path, generation: str) -> StackSpec:
    """The costs of a stack on GPUs of a generation; the rest as of `load_gpu`."""
    texts, numbers = _read(_STACK, str(name_or_path))
    fields: dict[str, Any] = texts | {
        key: (numbers.get(f"{key}.{generation}") or numbers[key]).value for key in numeric_fields(StackSpec)
    }
    return StackSpec(**fields)


def gpu_numbers(name_or_path: str | Path) -> Numbers:
    """The numbers of a GPU with unit, grade and source; errors as of `load_gpu`."""
    return _read(_GPU, str(name_or_path))[1]


def stack_numbers(name_or_path: str | Path) -> Numbers:
    """The numbers of a stack; one that is given by generation has a point and the generation behind its key."""
    return _read(_STACK, str(name_or_path))[1]


def stack_texts(name_or_path: str | Path) -> dict[str, str]:
    """The name, title and rows of calibration of a stack."""
    return _read(_STACK, str(name_or_path))[0]


def _read(kind: _Kind, where: str) -> tuple[dict[str, str], Numbers]:
    name = known_name(where, kind.names())
    if name is not None:
        texts, numbers = _read_preset(kind, name)
        return dict(texts), dict(numbers)
    if names_toml_file(where):
        return _read_file(kind, Path(where), f"set in {where}")
    raise UnknownName(kind.word, where, kind.names())


@cache
def _read_preset(kind: _Kind, name: str) -> tuple[dict[str, str], Numbers]:
    """The fields of a preset, whose file stays as it is while a process runs."""
    return _read_file(kind, kind.folder / f"{name}.toml", "")


def _read_file(kind: _Kind, path: Path, default_source: str) -> tuple[dict[str, str], Numbers]:
    """The fields that a file and the preset that it is based on give, in the order of the dataclass."""
    table = read_toml(path, BadWafer)
    fields, numbers = numeric_fields(kind.spec), Numbers()
    texts: dict[str, str] = {}
    base = table.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or base not in kind.names():
            raise UnknownName("base " + kind.word, str(base), kind.names(), where=str(path))
        texts, numbers = _read(kind, base)
    texts["name"] = path.stem
    for key, stated in table.items():
        if key in kind.texts:
            texts[key] = _text(path, key, stated)
        elif key not in fields:
            raise UnknownName("key", key, [*fields, *kind.texts, "base"], where=str(path))
        else:
            numbers = {name: number for name, number in numbers.items() if name.partition(".")[0] != key}
            for name, value in _by_generation(kind, path, key, stated).items():
                numbers[name] = read_number(path, name, value, fields[key], default_source)
    for key in (*kind.texts, *fields):
        if key not in texts and key not in numbers and any(f"{key}.{g}" not in numbers for g in GENERATIONS):
            msg = f'{path}: has no {key}; add it, or begin with base = "{kind.names()[0]}" and give what differs'
            raise BadWafer(msg)
    order = [name for key in fields for name in (key, *(f"{key}.{g}" for g in GENERATIONS)) if name in numbers]
    return texts, {name: numbers[name] for name in order}


def _by_generation(kind: _Kind, path: Path, key: str, stated: Any) -> dict[str, Any]:
    """The values of a key by the name of their number: one, or of a stack one for each generation."""
    if kind is _GPU or not isinstance(stated, dict) or stated.keys().isdisjoint(GENERATIONS):
        return {key: stated}
    for generation in stated:
        if generation not in GENERATIONS:
            raise UnknownName("generation", generation, GENERATIONS, where=f"{path}: {key}")
    return {f"{key}.{generation}": value for generation, value in stated.items()}


def _text(path: Path, key: str, stated: Any) -> str:
    if not isinstance(stated, str) or not stated.isprintable():
        msg = f"{path}: {key} = {short_repr(stated)}: give a text of printable characters on one line"
        raise BadWafer(msg)
    if key == "generation" and stated not in GENERATIONS:
        raise UnknownName(key, stated, GENERATIONS, where=str(path))
    return stated
