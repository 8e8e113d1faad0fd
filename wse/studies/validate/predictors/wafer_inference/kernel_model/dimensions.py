"""Sizes of the models whose inference was measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Sizes of a dense transformer with grouped-query attention and gated feed-forward blocks."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int

    @property
    def query_size(self) -> int:
        """Number of query values of one token."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Number of key values of one token in a layer; the value vector has the same size."""
        return self.kv_heads * self.head_dim


_QWEN3: Final = {
    "0.6b": Dimensions(layers=28, hidden=1024, heads=16, kv_heads=8, head_dim=128, ffn=3072, vocabulary=151_936),
    "1.7b": Dimensions(layers=28, hidden=2048, heads=16, kv_heads=8, head_dim=128, ffn=6144, vocabulary=151_936),
    "4b": Dimensions(layers=36, hidden=2560, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocabulary=151_936),
    "8b": Dimensions(layers=36, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=12_288, vocabulary=151_936),
}
"""Sizes by number of parameters. Source: the published configurations of the models."""


def dimensions_of(model: str) -> Dimensions | None:
    """Return the sizes of a model by its published name, or None if they are not known.

    >>> dimensions_of("Qwen3-4B").layers
    36
    """
    match = re.fullmatch(r"qwen-?3-(.+)", re.sub(r"[\s_]", "-", model.strip().lower()))
    return _QWEN3.get(match[1]) if match else None
