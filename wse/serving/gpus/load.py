"""Load GPUs and serving stacks from presets and user files.

The field ``generation`` of a GPU names the generation whose kernels it runs. Numbers of a serving
stack may differ by generation. See `wse.hardware.preset_reader` for the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from wse.errors import BadWafer, UnknownName
from wse.files import short_repr
from wse.hardware.preset_reader import PresetKind
from wse.plugins import GPUS, STACKS
from wse.serving.gpus.spec import GENERATIONS, GpuSpec, StackSpec

_HERE: Final = Path(__file__).parent


def _read_text(path: Path, key: str, raw_value: Any) -> str:
    """Return a string from a file after checking that it is printable."""
    if not isinstance(raw_value, str) or not raw_value.isprintable():
        raise BadWafer(f"{path}: {key} = {short_repr(raw_value)}: give a text of printable characters on one line")
    return raw_value


def _read_generation(path: Path, key: str, raw_value: Any) -> str:
    """Return the GPU generation from a file after checking that it is known."""
    if _read_text(path, key, raw_value) not in GENERATIONS:
        raise UnknownName(key, raw_value, GENERATIONS, place=str(path))
    return str(raw_value)


def _missing(base: str, keys: Sequence[str]) -> str:
    """Return the error message for missing fields in a file.

    Args:
        base: Preset that the message suggests as the base of the file.
        keys: Missing fields. The message names the first.
    """
    return f'has no {keys[0]}; add it, or begin with base = "{base}" and give what differs'


GPU_PRESETS: Final = PresetKind(
    word="GPU",
    group=GPUS,
    folder=_HERE / "presets",
    spec=GpuSpec,
    texts={"generation": _read_generation},
    missing=partial(_missing, "a100"),
)
STACK_PRESETS: Final = PresetKind(
    word="stack",
    group=STACKS,
    folder=_HERE / "stacks",
    spec=StackSpec,
    texts={"title": _read_text, "fitted_on": _read_text},
    missing=partial(_missing, "graph"),
    generations=GENERATIONS,
)


def known_gpus() -> tuple[str, ...]:
    """Return the names of all GPU presets, bundled or from installed packages."""
    return GPU_PRESETS.names()


def known_stacks() -> tuple[str, ...]:
    """Return the names of all serving stacks, bundled or from installed packages."""
    return STACK_PRESETS.names()


def load_gpu(name_or_path: str | Path) -> GpuSpec:
    """Return the GPU that a preset or a TOML file describes.

    Args:
        name_or_path: Name of a preset (case-insensitive), or path of a TOML file.

    Raises:
        UnknownName: There is no such preset, or the file has an unknown key; a similar name is
            suggested.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit or out of
            bounds.
    """
    texts, numbers = GPU_PRESETS.read(str(name_or_path))
    return GpuSpec(**texts, **GPU_PRESETS.values(numbers))


def load_stack(name_or_path: str | Path, generation: str) -> StackSpec:
    """Return the costs of a serving stack, which depend on the GPU generation.

    A serving stack is the software, in specific versions, that serves models on GPUs.

    Args:
        name_or_path: Name of a preset, or path of a TOML file.
        generation: Generation of the GPU, one of ``GENERATIONS``.

    Raises:
        UnknownName: There is no such preset, or the file has an unknown key.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit or out of
            bounds.
    """
    texts, numbers = STACK_PRESETS.read(str(name_or_path))
    return StackSpec(**texts, **STACK_PRESETS.values(numbers, generation))
