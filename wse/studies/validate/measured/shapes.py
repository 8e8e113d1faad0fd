"""Reader of model names in measurements: the bundled configuration and its layer sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wse.models.catalogue import CONFIGURATIONS, origins
from wse.models.configs.config import read_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a transformer with identical layers and gated feed-forward blocks.

    Sizes are in elements. Such a model has no experts.
    """

    hidden_size: int
    ffn_size: int
    layer_count: int


def shape_of(text: str) -> Shape | None:
    """Return the layer sizes of the model named in a text.

    The text is the name of the model, or ends with it. The result is None if the model is unknown,
    has experts, or has feed-forward blocks without a gate.

    >>> shape_of("decode LLaMA3-8B")
    Shape(hidden_size=4096, ffn_size=14336, layer_count=32)
    """
    name = configuration_of(text)
    return None if name is None else _shape(name)


def configuration_of(text: str) -> str | None:
    """Return the name of the bundled configuration for the model named in a text.

    The text is the name of the model, or ends with it. Case, spaces, punctuation, and words such as
    ``instruct`` and ``chat`` are ignored. Models with identical layers share a configuration. If
    several names match, the longest name is used. The result is None if no name matches.

    >>> configuration_of("Llama-3.1-8B-Instruct")
    'llama-3-8b'
    """
    name = _plain(re.sub(r"[-_ ](instruct|chat|hf|base)\b", "", text, flags=re.IGNORECASE))
    matches = [(len(published), config) for published, config in _published_names() if name.endswith(published)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


@cache
def _published_names() -> tuple[tuple[str, str], ...]:
    """Return (published name, bundled configuration name) for each known model.

    Published names are reduced to lower-case letters and digits, so that different spellings match.
    """
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
    """Return the letters and digits of a name, in lower case."""
    return "".join(c for c in name.lower() if c.isalnum())
