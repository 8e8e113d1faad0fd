"""The tiles of quantised weights: codes instead of weights, their scales, and which group each row is of.

Groups run along the model's own contraction index, so that weights are the same on every mesh; a PE's share of it may
begin and end inside groups. It holds the scales of those that it touches, as many as the PE that touches the most.
Where neighbouring outputs share a scale, a PE's outputs are cut into runs in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Final, TypeVar

import numpy as np

from wse.arrays import I32
from wse.compiler.passes.tiling.tiles import part_of, tile_of
from wse.errors import DoesNotFit
from wse.models.graph import parts_suffix
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import coding_of
from wse.number_formats import GROUP_NUMBERS, MOST_GROUPS, Coding, codes_name, scales_name
from wse.program.tiles import Tile, TilePart
from wse_mappings.cuts.layer_parts import Parts

MOST_INDICES: Final = 64
"""Indices whose runs, or groups, are kept: some 100 kB each."""

T = TypeVar("T")


def groups_name(tile: str, parts: Parts) -> str:
    """Return the name of the tile with the group of each row of a weight tile.

    Layers share the tile; split blocks have their own.

    >>> groups_name("layers.3.q+layers.3.k+layers.3.v", Parts(0, 1))
    'groups.q'
    """
    return f"groups.{_first_matrix(tile)}{parts_suffix(parts)}"


def widths_name(tile: str, parts: Parts) -> str:
    """Return the name of the tile with the number of outputs of each run that shares a scale."""
    return f"widths.{_first_matrix(tile)}{parts_suffix(parts)}"


def _first_matrix(tile: str) -> str:
    """Return the name of a tile's first matrix without its layer."""
    return tile.partition("+")[0].split(".", 2)[-1]


def coded_tiles(tile: Tile, spec: ModelSpec, weight_type: str, parts: Parts) -> list[Tile]:
    """Return the tiles that represent a tile ``[inputs, outputs]`` of weights in a coding: codes, scales and indices.

    Its parts hold the same inputs as the first, or none where a column has fewer experts than others. Blocks of a part
    are experts, which are alike. ``parts`` are those of a layer that the tile is of.

    Raises DoesNotFit when a PE would hold more groups than a byte can number.
    """
    codings = [coding for part in tile.parts if (coding := coding_of(spec, part.tensor, weight_type)) is not None]
    if len(codings) < len(tile.parts):
        return [tile]
    coding, index, axis = codings[0], tile.parts[0].outer, tile.parts[0].outer_axis
    assert index is not None
    touched, number = _groups(index, coding)
    if touched.shape[1] > MOST_GROUPS:
        message = (
            f"{tile.name} does not fit as {coding.name}: a PE would hold {touched.shape[1]} groups of inputs, "
            f"at most {MOST_GROUPS} can be numbered"
        )
        raise DoesNotFit(message)
    codes = tuple(replace(part, tensor=codes_name(part.tensor)) for part in tile.parts)
    scales = [replace(part, tensor=scales_name(part.tensor), outer=touched) for part in tile.parts]
    widths: list[TilePart] = []
    if coding.scale_view == "f32":
        scales, widths = _in_runs(scales, codings, tile.blocks)
    tiles = [
        replace(tile, view="raw", coding=weight_type, parts=codes),
        tile_of(scales, view=coding.scale_view, name=scales_name(tile.name), blocks=tile.blocks),
    ]
    if coding.group:
        numbers = tile_of(
            [part_of(GROUP_NUMBERS, None, (number, axis))], view="raw", name=groups_name(tile.name, parts)
        )
        tiles.append(numbers)
    if widths:
        tiles.append(tile_of(widths, view="raw", name=widths_name(tile.name, parts)))
    return tiles


def _in_runs(scales: list[TilePart], codings: list[Coding], blocks: int) -> tuple[list[TilePart], list[TilePart]]:
    """Return scales with one entry per run of outputs instead of per output, and the tile with the widths of the runs.

    The ``blocks`` of a part have runs of the same widths, which are there once.
    """
    of_runs, widths, runs = [], [], None
    for part, coding in zip(scales, codings, strict=True):
        if runs is None or blocks == 1:  # gate and up of experts have one cut
            runs = _runs(part.inner.reshape(len(part.inner), blocks, -1), coding.block)
        block, width = runs
        offset = None
        if part.offset is not None:
            offset = np.where(part.offset < 0, np.int32(-1), part.offset // coding.block)
        of_runs.append(replace(part, inner=block, offset=offset))
        widths.append(part_of(GROUP_NUMBERS, None, (width, part.inner_axis)))
    return of_runs, widths


def _by_content(function: Callable[[I32, T], tuple[I32, I32]]) -> Callable[[I32, T], tuple[I32, I32]]:
    """Wrap a function of an index so that it caches its last results by value."""

    @lru_cache(MOST_INDICES)
    def of_content(content: bytes, shape: tuple[int, ...], how: T) -> tuple[I32, I32]:
        results = function(np.frombuffer(content, np.int32).reshape(shape), how)
        for array in results:
            array.setflags(write=False)  # all who ask have the same
        return results

    @wraps(function)
    def of_index(index: I32, how: T) -> tuple[I32, I32]:
        return of_content(index.tobytes(), index.shape, how)

    return of_index


@_by_content
def _runs(index: I32, block: int) -> tuple[I32, I32]:
    """Return the blocks that the runs of each line belong to, int32 ``[lines, experts * most]`` (-1: padding), and
    their lengths.

    ``index`` is int32 ``[lines, experts, outputs]``. A run has neighbours of one block, no more than a byte can count;
    what is padding there belongs to the run before it. All experts of a line have the runs of its first, whose lengths
    are int32 ``[lines, most]``.
    """
    number = _without_padding(index[:, 0]) // np.int32(block)  # -1 stays -1
    begins = np.ones(number.shape, bool)
    begins[:, 1:] = number[:, 1:] != number[:, :-1]
    first = np.flatnonzero(begins)
    lengths = np.diff(first, append=begins.size)
    if lengths.max(initial=0) >= MOST_GROUPS:
        since = np.arange(begins.size) - np.repeat(first, lengths)
        begins |= (since % (MOST_GROUPS - 1) == 0).reshape(begins.shape)
    counts = begins.sum(axis=1)
    run = np.arange(int(counts.max(initial=0))) < counts[:, None]  # [lines, most]: whether the line has so many
    first = np.flatnonzero(begins)
    output, widths = np.zeros(run.shape, np.int64), np.zeros(run.shape, np.int32)
    output[run], widths[run] = first % index.shape[2], np.diff(first, append=begins.size)
    blocks = np.take_along_axis(index, output[:, None], axis=2)
    blocks //= np.int32(block)
    blocks[np.broadcast_to(~run[:, None], blocks.shape)] = -1
    return blocks.reshape(len(index), -1), widths


def _without_padding(index: I32) -> I32:
    """Return the index with each padding entry replaced by the entry before it, -1 where there is none."""
    if index.min(initial=0) >= 0:
        return index
    places = np.arange(index.shape[1], dtype=np.int32)
    last_real = np.maximum.accumulate(np.where(index >= 0, places, np.int32(0)), axis=1)
    return np.take_along_axis(index, last_real, axis=1)


@_by_content
def _groups(index: I32, coding: Coding) -> tuple[I32, I32]:
    """Return the groups that each line touches, int32 ``[lines, most]`` (-1: padding), and each input's position in
    them.

    ``index`` is int32 ``[lines, inputs]``. What is padding there belongs to the group before it.
    """
    if not coding.group:
        return np.zeros((len(index), 1), np.int32), np.zeros_like(index)
    group = np.maximum(_without_padding(index), 0) // np.int32(coding.group)
    order = np.argsort(group, axis=1, kind="stable") if (group[:, 1:] < group[:, :-1]).any() else None
    ordered = group if order is None else np.take_along_axis(group, order, axis=1)
    begins = np.ones(group.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rank = np.cumsum(begins, axis=1, dtype=np.int32) - np.int32(1)
    touched = np.full((len(index), int(rank.max(initial=-1)) + 1), -1, np.int32)
    touched[np.nonzero(begins)[0], rank[begins]] = ordered[begins]
    if order is None:
        return touched, rank
    place = np.empty_like(rank)
    np.put_along_axis(place, order, rank, axis=1)
    return touched, place
