"""Dimensions of the models whose kernels were measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import bundled_spec


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
        """Length of one token's key vector in a layer, for all heads together.

        The value vector has the same length.
        """
        return self.kv_heads * self.head_dim


@cache
def dimensions_of(model: str) -> Dimensions | None:
    """Return the sizes of a dense model of a bundled configuration, or None if there is none.

    >>> dimensions_of("Qwen3-4B").layers
    36
    """
    name = re.sub(r"[\s_]", "-", model.strip().lower()).replace("qwen-3", "qwen3")
    if name not in CONFIGURATIONS:
        return None
    spec = bundled_spec(name)
    if spec.experts is not None or spec.latent is not None or not spec.gated:
        return None
    return Dimensions(
        layers=spec.layer_count,
        hidden=spec.hidden_size,
        heads=spec.head_count,
        kv_heads=spec.kv_head_count,
        head_dim=spec.head_size,
        ffn=spec.ffn_size,
        vocabulary=spec.vocab_size,
    )
