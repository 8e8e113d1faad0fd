"""The shapes of the models that published measurements name."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).parents[2] / "data" / "published_models.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One layer of a model, and how many layers it has. Sizes count elements."""

    hidden_size: int
    ffn_size: int
    layer_count: int


def shape_of(text: str) -> Shape | None:
    """The shape of the model whose name a text is or ends with; None where it is not known.

    >>> shape_of("decode LLaMA3-8B")
    Shape(hidden_size=4096, ffn_size=14336, layer_count=32)
    """
    told = _plain(re.sub(r"[-_ ](instruct|chat|hf|base)\b", "", text, flags=re.IGNORECASE))
    found = [(name, shape) for name, shape in _shapes() if told.endswith(name)]
    return max(found, key=lambda each: len(each[0]))[1] if found else None


@cache
def _shapes() -> list[tuple[str, Shape]]:
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))["models"]
    keys = ("hidden_size", "ffn_size", "layer_count")
    return [(_plain(name), Shape(**{key: model[key] for key in keys})) for model in table for name in model["names"]]


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
