"""Parts of a layer, between which a pipeline stage may begin or end.

Part 0 is attention. Parts 1 to 8 are eighths of the feed-forward block: each has an eighth of the
block's features or, in a mixture of experts, an eighth of the features of each expert. The outputs
of these parts add up to the output of the block.

Attention and the feed-forward block add their outputs to the residual stream. A stage that ends
inside a layer sends this stream to the next stage. It also sends the input of the layer or of the
block if parts on both stages read that input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BLOCK_PARTS = 8
"""Number of equal parts of a feed-forward block."""

LAYER_PARTS = 1 + BLOCK_PARTS
"""Number of parts of a layer: first attention, then the parts of the block."""


class Parts(NamedTuple):
    """Consecutive parts of a layer: index of the first part, and index after the last part.

    A layer has nine parts: attention is part 0, and parts 1 to 8 are equal slices of the
    feed-forward block.

    >>> Parts().is_whole, Parts(1, LAYER_PARTS).has_attention
    (True, False)
    """

    first: int = 0
    last: int = LAYER_PARTS

    @property
    def is_whole(self) -> bool:
        """True if all parts of the layer are included."""
        return self == (0, LAYER_PARTS)

    @property
    def has_attention(self) -> bool:
        """True if the included parts contain the attention of the layer."""
        return self.first == 0

    @property
    def block(self) -> Parts | None:
        """The parts of the feed-forward block among these parts of a layer; None if there are none."""
        return Parts(max(1, self.first), self.last) if self.last > 1 else None

    @property
    def cuts_block(self) -> bool:
        """True if some, but not all, parts of the feed-forward block are included."""
        return self.block not in (None, BLOCK)

    def features(self, extent: int) -> tuple[int, int]:
        """Return the range (first, end) of the feed-forward features that the parts include.

        Args:
            extent: Number of features of the whole block.

        >>> Parts(0, 5).features(64), Parts(5, 9).features(64)
        ((0, 32), (32, 64))
        """
        first, last = (extent * max(0, part - 1) // BLOCK_PARTS for part in self)
        return first, last


WHOLE, ATTENTION, BLOCK = Parts(), Parts(0, 1), Parts(1, LAYER_PARTS)


class LayerRange(NamedTuple):
    """Consecutive layers. The first and the last layer may be incomplete.

    A layer has nine parts: its attention, and eight equal slices of its feed-forward block.

    Attributes:
        first_layer, last_layer: First layer, and index after the last layer.
        first_part, last_part: First part of the first layer, and index after the last part of the
            last layer.
    """

    first_layer: int
    last_layer: int
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def parts(self) -> list[tuple[int, Parts]]:
        """Layers in the range: for each, its index and which of its parts are in the range.

        >>> LayerRange(3, 5, 1, 4).parts
        [(3, Parts(first=1, last=9)), (4, Parts(first=0, last=4))]
        """
        layers = range(self.first_layer, self.last_layer)
        return [
            (
                layer,
                Parts(
                    self.first_part if layer == layers[0] else 0, self.last_part if layer == layers[-1] else LAYER_PARTS
                ),
            )
            for layer in layers
        ]

    @property
    def layer_count(self) -> float:
        """Number of layers, counting incomplete layers as fractions.

        >>> LayerRange(3, 5, 1, 1).layer_count
        1.0
        """
        return sum((parts.last - parts.first) / LAYER_PARTS for _, parts in self.parts)

    @property
    def next(self) -> tuple[int, int]:
        """Position at which the next range starts: index of the layer, and index of the part in it.

        >>> LayerRange(3, 5, 1, 4).next, LayerRange(3, 5).next
        ((4, 4), (5, 0))
        """
        if self.last_part == LAYER_PARTS or self.first_layer == self.last_layer:
            return self.last_layer, 0
        return self.last_layer - 1, self.last_part


def layer_units(block_parts: int) -> list[Parts]:
    """Return the smallest units into which a layer may be split between regions.

    A layer has nine parts: its attention, and eight equal slices of its feed-forward block.

    Args:
        block_parts: Number of parts of the feed-forward block; 0 to keep the whole layer in one
            piece.

    >>> layer_units(0)
    [Parts(first=0, last=9)]
    >>> layer_units(2)
    [Parts(first=0, last=1), Parts(first=1, last=5), Parts(first=5, last=9)]
    """
    if not block_parts:
        return [WHOLE]
    width = BLOCK_PARTS // block_parts
    return [Parts(0, 1), *(Parts(first, first + width) for first in range(1, LAYER_PARTS, width))]


def unit_bytes(units: Sequence[Parts], attention_bytes: float, block_bytes: float) -> list[float]:
    """Return the bytes of each unit of a layer. A unit is a set of parts that stay together.

    Each of the eight parts of the feed-forward block counts as an eighth of its bytes.

    Args:
        units: Parts of the layer in each unit.
        attention_bytes: Bytes of attention.
        block_bytes: Bytes of the feed-forward block.
    """
    return [
        attention_bytes * parts.has_attention
        + block_bytes * ((parts.block.last - parts.block.first) / BLOCK_PARTS if parts.block else 0.0)
        for parts in units
    ]
