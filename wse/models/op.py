"""Op: a node of the graph of a model. Also the names of ops in layers and in parts of split blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wse_mappings.cuts.layer_parts import ATTENTION, Parts

_LAYER: Final = re.compile(r"layers\.[0-9]+\.")

PARTS_MARK: Final = ":"
"""Separator in an op's name between the name of the whole op and the parts it covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A node of the model graph, such as a matrix product or a norm.

    Attributes:
        name: Unique name, such as ``layers.3.qkv``, with a suffix if the op computes only some
            parts of a split feed-forward block.
        kind: Type of the op, which determines how it is lowered to steps.
        layer: Index of the layer; -1 outside the layers.
        weights: Names of its weight tensors in wse.
        vectors: Names of additional trained vectors, such as biases and gains. Vectors of one group
            are stored side by side.
        parts: Parts of the layer that the op computes: attention, or some of the equal parts into
            which the feed-forward features are divided.
        input_norm: Name of the gain of the norm that computes its input; "" if its input is not
            normalised.
        windowed: Whether the op processes the heads of a layer with a sliding window, and these
            differ from the heads of other layers.
    """

    name: str
    kind: str
    layer: int
    weights: tuple[str, ...]
    vectors: tuple[tuple[str, ...], ...] = ()
    parts: Parts = ATTENTION
    input_norm: str = ""
    windowed: bool = False

    def in_first_layer(self) -> Op:
        """Return a copy of this op with the names of layer 0, so that layers can share results.

        An op outside the layers is returned unchanged.
        """
        if self.layer < 0:
            return self
        return Op(
            name=name_in_layer(self.name, 0),
            kind=self.kind,
            layer=0,
            weights=tuple(name_in_layer(name, 0) for name in self.weights),
            vectors=tuple(tuple(name_in_layer(name, 0) for name in group) for group in self.vectors),
            parts=self.parts,
            input_norm=name_in_layer(self.input_norm, 0),
            windowed=self.windowed,
        )


@lru_cache(maxsize=1 << 15)
def name_in_layer(name: str, layer: int) -> str:
    """Return the name of an op or tensor with the layer index replaced.

    If several names are joined by +, all of them are changed.

    >>> name_in_layer("prefill.layers.12.q+layers.12.k", 3)
    'prefill.layers.3.q+layers.3.k'
    """
    return _LAYER.sub(f"layers.{layer}.", name)


def parts_suffix(parts: Parts) -> str:
    """Return the suffix for the name of an op that computes only some parts of a block.

    It contains the indices of the first and the last part. For attention and for a feed-forward
    block that is not divided, it is "".

    >>> parts_suffix(ATTENTION), parts_suffix(Parts(1, 3))
    ('', ':1-2')
    """
    return f"{PARTS_MARK}{parts.first}-{parts.last - 1}" if parts.cuts_block else ""
