"""The shapes of the models that published measurements name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import read_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a model of equal layers with gated dense feed-forward blocks. Sizes count elements."""

    hidden_size: int
    ffn_size: int
    layer_count: int


def shape_of(text: str) -> Shape | None:
    """Return the shape of the model whose name a text is or ends with; None where it is not known, or has other layers.

    >>> shape_of("decode LLaMA3-8B")
    Shape(hidden_size=4096, ffn_size=14336, layer_count=32)
    """
    name = configuration_of(text)
    return None if name is None else _shape(name)


def configuration_of(text: str) -> str | None:
    """Return the bundled configuration with the layers of the model whose name a text is or ends with.

    Names are compared without case, spaces and signs; what says that a model was tuned counts for nothing.

    >>> configuration_of("Llama-3.1-8B-Instruct")
    'llama-3-8b'
    """
    name = _plain(re.sub(r"[-_ ](instruct|chat|hf|base)\b", "", text, flags=re.IGNORECASE))
    matches = [(len(published), known) for published, known in _published_names() if name.endswith(published)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


@cache
def _published_names() -> tuple[tuple[str, str], ...]:
    """Plain published names, and the configuration of each."""
    return tuple(
        (_plain(published), name) for name, origin in origins().items() for published in (name, *origin.same_shape)
    )


@cache
def _shape(name: str) -> Shape | None:
    spec = read_config(CONFIGURATIONS[name])
    if spec.experts is not None or not spec.gated:
        return None
    return Shape(hidden_size=spec.hidden_size, ffn_size=spec.ffn_size, layer_count=spec.layer_count)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
