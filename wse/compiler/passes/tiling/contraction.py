"""Contraction: whether an index that products sum over is cut at groups of quantised weights, and over how many PEs.

A PE stores the scales of each group of inputs that it touches. Cut evenly, blocks begin and end inside groups, and the
PE that touches the most decides for all. Cut so that groups lie whole on a PE, or on PEs of their own, it touches
fewer, but blocks may be longer. What takes fewer bytes is taken. Experts that may be placed in a few groups of columns
are placed in as many as take few bytes: the more there are, the more features of an expert a column stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from wse.compiler.options import Options
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, layer_shapes
from wse.number_formats import CODINGS, ELEMENT_BYTES, Coding
from wse_mappings.cuts.expert_groups import FEW, columns_of_expert
from wse_mappings.cuts.split import ceil_div
from wse_mappings.result_cache import ResultCache

HIDDEN, FFN, SHARED, EXPERTS = "hidden", "ffn", "shared", "experts"
"""The indices: the hidden vector, and the features of a dense block, of a shared one, and of an expert."""

HIDDEN_IN: Final = ("q", "k", "v", "q_a", "kv_a", "k_rope", "router", "gate", "up")
_HIDDEN_OUT: Final = ("o", "down")


MOST_EXPERT_GROUPS, MOST_EXTRA_FRACTION = 32, 0.02
"""Groups of columns that are tried where a few are requested, and by how much more bytes than the least fewer of them
may take: of more groups, one has more of a token's experts sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTypes:
    """The types in which weights are stored.

    Attributes:
        dtype: An element type or a coding.
        float_bytes: Bytes of an element of what is not quantised.
        cache: The cache of the request.
    """

    dtype: str
    float_bytes: int
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)

    @classmethod
    def from_options(cls, options: Options) -> HeldTypes:
        """Return the types of a request."""
        return cls(dtype=options.dtype, float_bytes=ELEMENT_BYTES[options.activation_type], cache=options.cache)

    def group_of_cut(self, spec: ModelSpec, kind: str, parts: int) -> int:
        """Return the group size at which an index is divided over ``parts`` lines; 0 where it is divided evenly."""
        return self._best_cuts(spec, kind)(parts)[0] if self.dtype in CODINGS else 0

    def cut(self, spec: ModelSpec, kind: str, parts: int) -> Cut:
        """Return the largest block of an index divided over ``parts`` lines, and the number of groups that a block
        touches.
        """
        return self._best_cuts(spec, kind)(parts)[1]

    def row_share(self, spec: ModelSpec, rows: int) -> float:
        """Return the fraction of a column's bytes on its fullest row, padding and scales of groups included.

        Scales of what sums over hidden features are no bytes of the column: a row stores those of all groups that it
        touches.
        """
        if self.dtype not in CODINGS:
            return ceil_div(spec.hidden_size, rows) / spec.hidden_size
        index = _index(spec, self, HIDDEN)
        return index.line_bytes(self.cut(spec, HIDDEN, rows)) / index.place_bytes / spec.hidden_size

    def expert_bytes(self, spec: ModelSpec, cols: int) -> float:
        """Return the bytes of an expert on the fullest of the columns over which its features are divided."""
        return _index(spec, self, EXPERTS).line_bytes(self.cut(spec, EXPERTS, cols))

    def expert_placement(self, spec: ModelSpec, placement: str, cols: int, stretches: int = 1) -> str:
        """Return a placement of experts on equal segments of columns, with FEW replaced by a number of groups."""
        if placement != FEW or spec.experts is None:
            return placement
        return str(self.cache.of(_few_groups, 4096)(spec, self, cols, stretches))

    def _best_cuts(self, spec: ModelSpec, kind: str) -> Callable[[int], tuple[int, Cut]]:
        return self.cache.of(_best_cuts, 64)(spec, self, kind)


class _Matrix(NamedTuple):
    """A matrix that has a given index: its coding, if it has one, and its weights per element of the index."""

    coding: Coding | None
    weights: int


class _Index(NamedTuple):
    """An index and the matrices of a layer that contract over it or have it as output.

    ``group`` is that of the codes that sum over it; 0 where they have none, or several.
    """

    extent: int
    group: int
    summed: tuple[_Matrix, ...]
    made: tuple[_Matrix, ...]
    float_bytes: int

    def line_bytes(self, cut: Cut) -> float:
        """Return the bytes of the matrices on a line of PEs, each of which stores a block of the index."""
        width, float_bytes = cut.width, self.float_bytes
        total: float = sum(_code_bytes(coding, width, float_bytes) * weights for coding, weights in self.summed)
        total += sum(_bits(coding, float_bytes) * width * weights for coding, weights in self.made) / 8
        for coding, weights in self.summed:
            if coding is not None:
                total += cut.touched * coding.scale_bytes(float_bytes) * weights / coding.block
        return total

    @property
    def place_bytes(self) -> float:
        """Return the bytes of the matrices per element of the index, without scales of those that contract over it."""
        return sum(_bits(coding, self.float_bytes) * weights for coding, weights in (*self.summed, *self.made)) / 8


class Cut(NamedTuple):
    """The largest block of a divided index, and the maximum number of groups that a block touches."""

    width: int
    touched: int


def _index(spec: ModelSpec, held: HeldTypes, kind: str) -> _Index:
    matrices = _matrices(spec, kind)
    of_kind: dict[bool, list[_Matrix]] = {True: [], False: []}
    for name, weights in matrices:
        of_kind[_contracts(name, kind)].append(_Matrix(coding_of(spec, f"layers.0.{name}", held.dtype), weights))
    groups = {coding.group for coding, _ in of_kind[True] if coding is not None and coding.group}
    group = groups.pop() if len(groups) == 1 else 0
    return _Index(_extent(spec, kind), group, tuple(of_kind[True]), tuple(of_kind[False]), held.float_bytes)


def even_cut(extent: int, parts: int, group: int) -> Cut:
    """Return the blocks of `padded_blocks` and the groups of ``group`` neighbours that they touch.

    >>> even_cut(192, 18, 32)
    Cut(width=11, touched=2)
    """
    width = ceil_div(extent, parts)
    if not group or not width:
        return Cut(width, 1)
    first = np.arange(0, extent, width)
    last = np.minimum(first + width, extent) - 1
    return Cut(width, int((last // group - first // group).max()) + 1)


def grouped_cut(extent: int, parts: int, group: int) -> Cut:
    """Return the blocks of `grouped_blocks` and the groups that they touch.

    >>> grouped_cut(192, 18, 32), grouped_cut(192, 4, 32)
    (Cut(width=11, touched=1), Cut(width=64, touched=2))
    """
    groups = ceil_div(extent, group)
    if parts < groups:
        return Cut(ceil_div(groups, parts) * group, ceil_div(groups, parts))
    return Cut(ceil_div(group, parts // groups), 1)


def _best_cuts(spec: ModelSpec, held: HeldTypes, kind: str) -> Callable[[int], tuple[int, Cut]]:
    """Return a function from a number of lines to the group size that divides an index (0: evenly), and the cut."""
    index = _index(spec, held, kind)

    @cache
    def best_cut(parts: int) -> tuple[int, Cut]:
        even = even_cut(index.extent, parts, index.group)
        if not index.group or not index.extent:
            return 0, even
        grouped = grouped_cut(index.extent, parts, index.group)
        return (index.group, grouped) if index.line_bytes(grouped) < index.line_bytes(even) else (0, even)

    return best_cut


def _few_groups(spec: ModelSpec, held: HeldTypes, cols: int, stretches: int) -> int:
    """Return the smallest number of groups among those with nearly the fewest bytes of experts per column."""
    assert spec.experts is not None
    count, index = spec.experts.count, _index(spec, held, EXPERTS)
    sizes = {}
    for groups in range(2, max(2, min(MOST_EXPERT_GROUPS, count, cols)) + 1):
        cut = held.cut(spec, EXPERTS, columns_of_expert(cols, count, str(groups), stretches))
        sizes[groups] = ceil_div(count, groups) * index.line_bytes(cut)
    least = min(sizes.values())
    return next(groups for groups, size in sizes.items() if size <= (1 + MOST_EXTRA_FRACTION) * least)


def _extent(spec: ModelSpec, kind: str) -> int:
    if kind in (HIDDEN, FFN):
        return spec.hidden_size if kind == HIDDEN else spec.ffn_size
    if spec.experts is None:
        return 0
    return spec.experts.ffn_size if kind == EXPERTS else spec.experts.shared_size


def _matrices(spec: ModelSpec, kind: str) -> list[tuple[str, int]]:
    """Return the matrices of a layer that have an index, with their weights per element of the index."""
    extent = max(_extent(spec, kind), 1)
    layer = Layer(experts=spec.experts is not None and kind != FFN)
    prefix = {HIDDEN: None, FFN: "", SHARED: "shared.", EXPERTS: "experts."}[kind]
    return [
        (name, shape[0] * shape[1] // extent)
        for name, shape in layer_shapes(spec, layer).items()
        if len(shape) == 2
        and (
            name.rpartition(".")[2] in (*HIDDEN_IN, *_HIDDEN_OUT)
            if prefix is None
            else name in (f"{prefix}gate", f"{prefix}up", f"{prefix}down")
        )
    ]


def _contracts(name: str, kind: str) -> bool:
    """Return whether a matrix contracts over an index, rather than having it as output."""
    last = name.rpartition(".")[2]
    return last in HIDDEN_IN if kind == HIDDEN else last == "down"


def _bits(coding: Coding | None, float_bytes: int) -> int:
    return 8 * float_bytes if coding is None else coding.bits


def _code_bytes(coding: Coding | None, rows: int, float_bytes: int) -> int:
    """Return the bytes of the weights of an output over ``rows`` inputs."""
    return rows * float_bytes if coding is None else coding.code_bytes(rows, 1)
