"""Bundled models: a small model that runs, and the configurations of published models, without weights."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from wse.known_names import known_name

_DATA: Final = Path(__file__).parents[1] / "data"
_CONFIGS: Final = _DATA / "configs"

BUNDLED: Final[dict[str, Path]] = {"story": _DATA / "story", "story-draft": _DATA / "story-draft"}
"""Folders of models with weights, by name."""

_TUNED: Final = re.compile(r"(-(instruct|chat|it|hf|base|fp8|bf16|[0-9]{4}))+$")

CONFIGURATIONS: Final[dict[str, Path]] = {path.stem: path for path in sorted(_CONFIGS.glob("*.json"))}
"""Configurations without weights, by name, with Hugging Face's keys: timed alone, executed on random weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a bundled configuration.

    Attributes:
        repository: The model on huggingface.co.
        licence: Of its weights, which are not part of wse.
        released: The month in which they were published, as 2024-07.
        same_shape: Names of other published models with the same layers.
        note: What is not certain, or left out; empty where nothing is.
    """

    repository: str
    licence: str
    released: str
    same_shape: tuple[str, ...] = ()
    note: str = ""


@cache
def origins() -> dict[str, Origin]:
    """Return the origin of each of `CONFIGURATIONS`."""
    table = tomllib.loads((_CONFIGS / "index.toml").read_text(encoding="utf-8"))
    return {name: Origin(**entry | {"same_shape": tuple(entry.get("same_shape", ()))}) for name, entry in table.items()}


def name_of_repository(repository: str) -> str | None:
    """Return the configuration of a repository or of a tuned form of it; None where none has its shape.

    >>> name_of_repository("meta-llama/Llama-3.1-8B-Instruct"), name_of_repository("nobody/gpt-9")
    ('llama-3.1-8b', None)
    """
    model = _plain_model(repository)
    by_model = {_plain_model(origin.repository): name for name, origin in origins().items()}
    return by_model.get(model) or known_name(model, CONFIGURATIONS)


def _plain_model(repository: str) -> str:
    """Return the model of a repository in lower case, without suffixes for tuning or weight formats."""
    return _TUNED.sub("", repository.rpartition("/")[2].casefold())


def names() -> tuple[str, ...]:
    """Return every name of a bundled model or configuration."""
    return (*BUNDLED, *CONFIGURATIONS)
