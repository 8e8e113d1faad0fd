"""Contraction: whether an index that products sum over is cut at groups of quantised weights, and over how many PEs.

A PE holds the scales of each group of inputs that it touches. Cut evenly, blocks begin and end inside groups, and the
PE that touches the most decides for all. Cut so that groups lie whole on a PE, or on PEs of their own, it touches
fewer, but blocks may be longer. What takes fewer bytes is taken. Experts that may be placed in a few groups of columns
are placed in as many as take few bytes: the more there are, the more features of an expert a column holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, layer_shapes
from wse.number_formats import CODINGS, Coding
from wse_mappings.cuts.expert_groups import FEW, columns_of_expert
from wse_mappings.cuts.split import blocks, ceil_div, grouped_blocks, padded_blocks

HIDDEN, FFN, SHARED, EXPERTS = "hidden", "ffn", "shared", "experts"
"""The indices: the hidden vector, and the features of a dense block, of a shared one, and of an expert."""

_HIDDEN_IN: Final = ("q", "k", "v", "q_a", "kv_a", "k_rope", "router", "gate", "up")
_HIDDEN_OUT: Final = ("o", "down")


MOST_EXPERT_GROUPS, FURTHER_BYTES = 32, 0.02
"""Groups of columns that are tried where a few are asked for, and by how much more bytes than the least fewer of them
may take: of more groups, one has more of a token's experts sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The types that weights are held in.

    Attributes:
        dtype: An element type or a coding.
        float_bytes: Bytes of an element of what is not quantised.
    """

    dtype: str
    float_bytes: int

    def group_of_cut(self, spec: ModelSpec, kind: str, parts: int) -> int:
        """The group at which an index is cut over a line of ``parts``; 0 where it is cut evenly."""
        return _group_of_cut(spec, self.dtype, self.float_bytes, kind, parts) if self.dtype in CODINGS else 0

    def expert_placement(self, spec: ModelSpec, placement: str, cols: int, stretches: int = 1) -> str:
        """A placement of experts on columns in equal stretches, with FEW as a number of groups."""
        if placement != FEW:
            return placement
        return str(_few_groups(replace(spec, layers=()), self, cols, stretches))


@lru_cache(maxsize=256)
def _group_of_cut(spec: ModelSpec, dtype: str, float_bytes: int, kind: str, parts: int) -> int:
    extent = _extent(spec, kind)
    matrices = _matrices(spec, kind)
    contracted = [
        (coding_of(spec, f"layers.0.{name}", dtype), size) for name, size in matrices if _contracts(name, kind)
    ]
    made = [(coding_of(spec, f"layers.0.{name}", dtype), size) for name, size in matrices if not _contracts(name, kind)]
    groups = {coding.group for coding, _ in contracted if coding is not None and coding.group}
    if len(groups) != 1 or extent == 0:
        return 0
    (group,) = groups

    def line_bytes(blocks: I32) -> float:
        """Bytes on a line of the matrices that the index is in, where each PE holds a block."""
        width, touched = blocks.shape[1], most_groups(blocks, group)
        total: float = sum(_code_bytes(coding, width, float_bytes) * size for coding, size in contracted)
        total += sum(_bits(coding, float_bytes) * width * size for coding, size in made) / 8
        for coding, size in contracted:
            if coding is not None:
                total += touched * coding.scale_bytes(float_bytes) * size / coding.block
        return total

    return group if line_bytes(grouped_blocks(extent, parts, group)) < line_bytes(padded_blocks(extent, parts)) else 0


@lru_cache(maxsize=4096)
def _few_groups(spec: ModelSpec, held: Held, cols: int, stretches: int) -> int:
    """The fewest groups of those that take about the fewest bytes of experts on a column."""
    assert spec.experts is not None
    sizes = {}
    for groups in range(2, max(2, min(MOST_EXPERT_GROUPS, spec.experts.count, cols)) + 1):
        columns = columns_of_expert(cols, spec.experts.count, str(groups), stretches)
        feature_group = held.group_of_cut(spec, EXPERTS, columns)
        sizes[groups] = ceil_div(spec.experts.count, groups) * _feature_bytes(spec, held, columns, feature_group)
    least = min(sizes.values())
    return next(groups for groups, size in sizes.items() if size <= (1 + FURTHER_BYTES) * least)


def _feature_bytes(spec: ModelSpec, held: Held, columns: int, feature_group: int) -> float:
    """Bytes of an expert on a column of as many as its features are cut over, for each hidden feature."""
    assert spec.experts is not None
    index = blocks(spec.experts.ffn_size, columns, feature_group)
    total = 0.0
    for name, _ in _matrices(spec, EXPERTS):
        coding = coding_of(spec, f"layers.0.{name}", held.dtype)
        total += index.shape[1] * _bits(coding, held.float_bytes) / 8
        if coding is not None and _contracts(name, EXPERTS):
            touched = most_groups(index, coding.group) if coding.group else 1
            total += touched * coding.scale_bytes(held.float_bytes) / coding.block
    return total


def most_groups(blocks: I32, group: int) -> int:
    """Groups of neighbouring indices that the block touches which touches the most, of blocks ``[lines, n]``."""
    number = np.where(blocks < 0, blocks.max(axis=1, keepdims=True, initial=0), blocks) // group
    return int((np.diff(number, axis=1) != 0).sum(axis=1).max(initial=0)) + 1


def _extent(spec: ModelSpec, kind: str) -> int:
    if kind in (HIDDEN, FFN):
        return spec.hidden_size if kind == HIDDEN else spec.ffn_size
    if spec.experts is None:
        return 0
    return spec.experts.ffn_size if kind == EXPERTS else spec.experts.shared_size


def _matrices(spec: ModelSpec, kind: str) -> list[tuple[str, int]]:
    """The matrices of a layer that an index is in, and for each of its places how many weights they have."""
    extent = max(_extent(spec, kind), 1)
    layer = Layer(experts=spec.experts is not None and kind != FFN)
    prefix = {HIDDEN: None, FFN: "", SHARED: "shared.", EXPERTS: "experts."}[kind]
    return [
        (name, shape[0] * shape[1] // extent)
        for name, shape in layer_shapes(spec, layer).items()
        if len(shape) == 2
        and (
            name.rpartition(".")[2] in (*_HIDDEN_IN, *_HIDDEN_OUT)
            if prefix is None
            else name in (f"{prefix}gate", f"{prefix}up", f"{prefix}down")
        )
    ]


def _contracts(name: str, kind: str) -> bool:
    """Whether a matrix sums over an index; else it has it as outputs."""
    last = name.rpartition(".")[2]
    return last in _HIDDEN_IN if kind == HIDDEN else last == "down"


def _bits(coding: Coding | None, float_bytes: int) -> int:
    return 8 * float_bytes if coding is None else coding.bits


def _code_bytes(coding: Coding | None, rows: int, float_bytes: int) -> int:
    """Bytes of so many weights of an output."""
    return rows * float_bytes if coding is None else coding.code_bytes(rows, 1)
