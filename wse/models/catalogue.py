"""Bundled models: two small models with weights, and configurations of published models."""

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
"""Folders of models with weights, keyed by name."""

_TUNED: Final = re.compile(r"(-(instruct|chat|it|hf|base|fp8|bf16|[0-9]{4}))+$")

CONFIGURATIONS: Final[dict[str, Path]] = {path.stem: path for path in sorted(_CONFIGS.glob("*.json"))}
"""Config files in Hugging Face's format, without weights, keyed by model name.

Such models can be timed, or executed with random weights.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Source of a model configuration bundled with wse.

    Attributes:
        repository: Name of the model on huggingface.co.
        licence: Licence of the model's weights, which are not part of wse.
        released: Month of publication, such as 2024-07.
        same_shape: Names of other published models with the same layers.
        note: Settings that are uncertain or omitted; "" if there are none.
    """

    repository: str
    licence: str
    released: str
    same_shape: tuple[str, ...] = ()
    note: str = ""


@cache
def origins() -> dict[str, Origin]:
    """Return where each bundled configuration comes from: its repository, licence and month.

    Returns:
        The `Origin` of each configuration, keyed by model name, such as ``llama-3.1-8b``.
    """
    table = tomllib.loads((_CONFIGS / "index.toml").read_text(encoding="utf-8"))
    return {name: Origin(**entry | {"same_shape": tuple(entry.get("same_shape", ()))}) for name, entry in table.items()}


def name_of_repository(repository: str) -> str | None:
    """Return the name of the bundled configuration for a Hugging Face repository, or None.

    Fine-tuned and quantised versions of a model have the same configuration as the model itself.

    >>> name_of_repository("meta-llama/Llama-3.1-8B-Instruct"), name_of_repository("nobody/gpt-9")
    ('llama-3.1-8b', None)
    """
    model = _plain_model(repository)
    by_model = {_plain_model(origin.repository): name for name, origin in origins().items()}
    return by_model.get(model) or known_name(model, CONFIGURATIONS)


def _plain_model(repository: str) -> str:
    """Return a repository's model name in lower case, without suffixes such as ``-instruct``.

    The removed suffixes indicate fine-tuning or the element type of the weights.
    """
    return _TUNED.sub("", repository.rpartition("/")[2].casefold())


def names() -> tuple[str, ...]:
    """Return the names of all bundled models, including those that have only a configuration."""
    return (*BUNDLED, *CONFIGURATIONS)
