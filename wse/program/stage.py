"""Stages of a Program: the region and layers of each, its buffers in SRAM, and its colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.mesh.placement import Rect


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Part of the model, stored on one region of PEs.

    A region is a rectangle of PEs on ``wafer`` and the same rectangle on each of the ``span - 1``
    following wafers. Side by side, these rectangles form one region, whose columns are numbered
    consecutively from the first wafer to the last.
    """

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int  # one past the last
    has_embedding: bool
    has_head: bool
    sram_base_byte: int  # first byte after code, stack and the memory of the runtime
    sram_top_byte: int  # one past the last byte in use; past the end of SRAM if the stage does not fit
    span: int = 1  # number of wafers
    first_part: int = 0  # first part of the first layer; parts as in `wse_mappings.cuts.layer_parts`
    last_part: int = LAYER_PARTS  # one past the last part of the last layer
    attention: tuple[int, int] = (0, 0)  # columns of the region that compute attention: the first one, their number

    @property
    def cols(self) -> int:
        """Number of columns of the region, counted over all wafers that it spans."""
        return self.rect.cols * self.span

    @property
    def wafers(self) -> range:
        """Indices of the wafers on which the stage stores layers."""
        return range(self.wafer, self.wafer + self.span)

    @property
    def has_attention(self) -> bool:
        """True if the stage contains the attention of at least one layer."""
        layers = LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)
        return any(parts.has_attention for _, parts in layers.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Named address range in the SRAM of every PE of a stage, for example for weights.

    A stage is a part of the model, stored on one region of PEs. All of its PEs have the same
    buffers.
    """

    stage: int
    name: str
    use: str  # code, weights, kv, activations or buffers
    address: int
    bytes: int
    element: str  # element type
    live: tuple[tuple[int, int, int], ...]  # (phase, first step, last step) of each use; empty: always live


class UserBytes(NamedTuple):
    """Bytes of SRAM on a PE of a stage that depend on the number of users.

    Attributes:
        kv: Bytes of the KV caches of all users.
        state: Bytes of the states of all users, which do not depend on the context.
        room: Bytes of caches and states together, plus all free SRAM.
    """

    kv: int
    state: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourUse:
    """Router colours that one communication pattern uses in one stage.

    The pattern uses the colours ``first`` to ``first + colours - 1``. If ``is_rewritten`` is true,
    several patterns use these colours at different times, and the routes are rewritten at run time.
    """

    stage: int
    pattern: str
    axis: int
    first: int
    colours: int
    is_rewritten: bool
