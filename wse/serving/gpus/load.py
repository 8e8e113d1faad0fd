"""GPUs and serving stacks: presets and user files (`wse.hardware.preset_reader`) as specifications.

A GPU names in ``generation`` the generation whose kernels it has. A number of a stack may differ by generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from wse.errors import BadWafer, UnknownName
from wse.files import short_repr
from wse.hardware.preset_reader import Numbers, PresetKind
from wse.plugins import GPUS, STACKS
from wse.serving.gpus.spec import GENERATIONS, GpuSpec, StackSpec

_HERE: Final = Path(__file__).parent


def _read_text(path: Path, key: str, stated: Any) -> str:
    if not isinstance(stated, str) or not stated.isprintable():
        msg = f"{path}: {key} = {short_repr(stated)}: give a text of printable characters on one line"
        raise BadWafer(msg)
    return stated


def _read_generation(path: Path, key: str, stated: Any) -> str:
    if _read_text(path, key, stated) not in GENERATIONS:
        raise UnknownName(key, stated, GENERATIONS, where=str(path))
    return str(stated)


def _missing(base: str, keys: Sequence[str]) -> str:
    return f'has no {keys[0]}; add it, or begin with base = "{base}" and give what differs'


_GPU: Final = PresetKind(
    word="GPU",
    group=GPUS,
    folder=_HERE / "presets",
    spec=GpuSpec,
    texts={"generation": _read_generation},
    missing=partial(_missing, "a100"),
)
_STACK: Final = PresetKind(
    word="stack",
    group=STACKS,
    folder=_HERE / "stacks",
    spec=StackSpec,
    texts={"title": _read_text, "fitted_on": _read_text},
    missing=partial(_missing, "graph"),
    generations=GENERATIONS,
)


def known_gpus() -> tuple[str, ...]:
    """Return the names of the GPU presets."""
    return _GPU.names()


def bundled_gpus() -> tuple[str, ...]:
    """Return the names of the GPU presets, without those of other packages."""
    return _GPU.bundled_names()


def known_stacks() -> tuple[str, ...]:
    """Return the names of the serving stacks."""
    return _STACK.names()


def load_gpu(name_or_path: str | Path) -> GpuSpec:
    """Return the GPU of a preset's name, without regard to case, or of a TOML file.

    Raises:
        UnknownName: no such preset, or an unknown key in the file; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is missing, in another unit or out of bounds.
    """
    texts, numbers = _GPU.read(str(name_or_path))
    return GpuSpec(**texts, **_GPU.values(numbers))


def load_stack(name_or_path: str | Path, generation: str) -> StackSpec:
    """Return the costs of a stack on GPUs of a generation. Names and errors as of `load_gpu`."""
    texts, numbers = _STACK.read(str(name_or_path))
    return StackSpec(**texts, **_STACK.values(numbers, generation))


def gpu_numbers(name_or_path: str | Path) -> Numbers:
    """Return the numbers of a GPU with unit, grade and source. Errors as of `load_gpu`."""
    return _GPU.read(str(name_or_path)).numbers


def stack_numbers(name_or_path: str | Path) -> Numbers:
    """Return the numbers of a stack; one that differs by generation has a point and the generation after its key."""
    return _STACK.read(str(name_or_path)).numbers


def stack_texts(name_or_path: str | Path) -> dict[str, str]:
    """Return the name, title and rows of calibration of a stack."""
    return _STACK.read(str(name_or_path)).texts
