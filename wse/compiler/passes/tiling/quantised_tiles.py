"""Tiles of quantised weights: the codes, their scales, and the group of each row.

Quantisation groups run along the contraction dimension of the whole matrix, so the weights are the
same on every mesh. The block of rows that a PE stores may therefore begin and end inside a group.
Each PE stores the scales of all groups that its block touches, padded to the maximum over PEs, and
for each row the position of its group among these groups. In some codings, neighbouring outputs
also share a scale. The outputs of a PE are then divided into runs with a common scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Final, TypeVar

import numpy as np

from wse.arrays import I32
from wse.compiler.passes.tiling.tile_parts import part_of, tile_of
from wse.errors import DoesNotFit
from wse.models.op import parts_suffix
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import coding_of
from wse.number_formats import GROUP_NUMBERS, MAX_GROUPS, Coding, codes_name, scales_name
from wse.program.tiles import Tile, TilePart
from wse_mappings.cuts.layer_parts import Parts

MAX_INDICES: Final = 64
"""Number of indices whose runs or groups are cached, about 100 kB each."""

T = TypeVar("T")


def groups_name(tile: str, parts: Parts) -> str:
    """Return the name of the tile that stores the quantisation group of each row of a weight tile.

    Layers share this tile, so its name has no layer. Stages with only some parts of a feed-forward
    block have separate tiles.

    Args:
        tile: Name of the weight tile that the groups belong to.
        parts: The parts of a layer that the weight tile belongs to.

    >>> groups_name("layers.3.q+layers.3.k+layers.3.v", Parts(0, 1))
    'groups.q'
    """
    return f"groups.{_first_matrix(tile)}{parts_suffix(parts)}"


def widths_name(tile: str, parts: Parts) -> str:
    """Return the name of the tile that stores how many neighbouring outputs share each scale.

    Args:
        tile: Name of the weight tile that the scales belong to.
        parts: The parts of a layer that the weight tile belongs to.
    """
    return f"widths.{_first_matrix(tile)}{parts_suffix(parts)}"


def _first_matrix(tile: str) -> str:
    """Return the name of the first matrix in a tile, without its layer.

    For the tile name ``layers.3.q+layers.3.k``, the result is ``q``.
    """
    return tile.partition("+")[0].split(".", 2)[-1]


def coded_tiles(tile: Tile, spec: ModelSpec, weight_type: str, parts: Parts) -> list[Tile]:
    """Return the tiles that store a tile of weights in a coding: codes, scales and indices.

    1. Find the quantisation groups that the rows of each PE touch.
    2. Create the tiles of codes and scales, with one scale per group and output. If neighbouring
       outputs share scales, keep one scale per run of outputs (`_scales_of_runs`).
    3. Create the tile with the group of each row if there are several groups, and the tile with the
       run widths if outputs share scales.

    Args:
        tile: Tile ``[inputs, outputs]``. Its parts store the same inputs, except that columns with
            fewer experts than others have padding. The blocks of a part are experts.
        spec: Model.
        weight_type: Element type or coding of the weights.
        parts: The parts of a layer that the tile belongs to.

    Returns:
        The tile itself if any of its tensors is not quantised; otherwise the tiles of steps 2 and
        3.

    Raises:
        DoesNotFit: A PE would store more groups than a byte can index.
    """
    codings = [coding for part in tile.parts if (coding := coding_of(spec, part.tensor, weight_type)) is not None]
    if len(codings) < len(tile.parts):
        return [tile]
    coding, index, axis = codings[0], tile.parts[0].outer, tile.parts[0].outer_axis
    assert index is not None
    touched_groups, group_positions = _groups(index, coding)  # 1
    if touched_groups.shape[1] > MAX_GROUPS:
        raise DoesNotFit(
            f"{tile.name} does not fit as {coding.name}: a PE would store {touched_groups.shape[1]} groups of inputs, "
            f"but at most {MAX_GROUPS} are possible"
        )
    # 2. A scale belongs to a group of inputs and to an output, or to a run of outputs.
    codes = tuple(replace(part, tensor=codes_name(part.tensor)) for part in tile.parts)
    scales = [replace(part, tensor=scales_name(part.tensor), outer=touched_groups) for part in tile.parts]
    widths: list[TilePart] = []
    if coding.scale_view == "f32":
        scales, widths = _scales_of_runs(scales, codings, tile.blocks)
    tiles = [
        replace(tile, view="raw", coding=weight_type, parts=codes),
        tile_of(scales, view=coding.scale_view, name=scales_name(tile.name), blocks=tile.blocks),
    ]
    if coding.group:  # 3
        numbers = tile_of(
            [part_of(GROUP_NUMBERS, None, (group_positions, axis))], view="raw", name=groups_name(tile.name, parts)
        )
        tiles.append(numbers)
    if widths:
        tiles.append(tile_of(widths, view="raw", name=widths_name(tile.name, parts)))
    return tiles


def _scales_of_runs(
    scales: list[TilePart], codings: list[Coding], blocks: int
) -> tuple[list[TilePart], list[TilePart]]:
    """Store each scale only once for a run of neighbouring outputs that share it.

    Args:
        scales: Parts of the tile of scales, one per weight matrix, with one scale per output.
        codings: Quantisation format of each part.
        blocks: Number of experts in each part. The run lengths are the same for all experts and are
            stored once.

    Returns:
        The parts of the scales, with one scale per run of outputs that share it; and the parts that
        store the length of each run.
    """
    run_scales, widths, runs = [], [], None
    for part, coding in zip(scales, codings, strict=True):
        if runs is None or blocks == 1:  # gate and up of experts have the same runs
            runs = _runs(part.inner.reshape(len(part.inner), blocks, -1), coding.block)
        block, width = runs
        offset = None
        if part.offset is not None:
            offset = np.where(part.offset < 0, np.int32(-1), part.offset // coding.block)
        run_scales.append(replace(part, inner=block, offset=offset))
        widths.append(part_of(GROUP_NUMBERS, None, (width, part.inner_axis)))
    return run_scales, widths


def _cached_by_content(function: Callable[[I32, T], tuple[I32, I32]]) -> Callable[[I32, T], tuple[I32, I32]]:
    """Return a version of a function with a cache, in which equal arrays have the same key.

    Args:
        function: Function of an index array and a hashable option. It returns two arrays.
    """

    @lru_cache(MAX_INDICES)
    def compute(content: bytes, shape: tuple[int, ...], option: T) -> tuple[I32, I32]:
        """Compute the results for an index array that is given as bytes and shape, the cache key.

        The results are read-only.
        """
        results = function(np.frombuffer(content, np.int32).reshape(shape), option)
        for array in results:
            array.setflags(write=False)  # callers share the cached arrays
        return results

    @wraps(function)
    def compute_cached(index: I32, option: T) -> tuple[I32, I32]:
        """Return the results for an index array, from the cache if possible."""
        return compute(index.tobytes(), index.shape, option)

    return compute_cached


@_cached_by_content
def _runs(index: I32, block: int) -> tuple[I32, I32]:
    """Divide the outputs that each PE stores into runs of neighbours that share a scale.

    A line is a row or column of PEs that stores the same outputs. The matrix has one scale for
    every block of ``block`` neighbouring outputs. The length of a run is stored in one byte, so a
    longer run is split. Padding belongs to the preceding run. All experts of a line are divided
    as its first expert is.

    Args:
        index: int32 ``[lines, experts, outputs]``; -1 for padding.
        block: Neighbouring outputs of the whole matrix that share a scale.

    Returns:
        The block of each run, int32 ``[lines, experts * runs]`` with -1 for padding; and the
        lengths of the runs, int32 ``[lines, runs]``.
    """
    number = _without_padding(index[:, 0]) // np.int32(block)  # -1 stays -1
    begins = np.ones(number.shape, bool)
    begins[:, 1:] = number[:, 1:] != number[:, :-1]
    first = np.flatnonzero(begins)
    lengths = np.diff(first, append=begins.size)
    if lengths.max(initial=0) >= MAX_GROUPS:
        since = np.arange(begins.size) - np.repeat(first, lengths)
        begins |= (since % (MAX_GROUPS - 1) == 0).reshape(begins.shape)
    counts = begins.sum(axis=1)
    run = np.arange(int(counts.max(initial=0))) < counts[:, None]  # [lines, runs]: whether the run exists
    first = np.flatnonzero(begins)
    output, widths = np.zeros(run.shape, np.int64), np.zeros(run.shape, np.int32)
    output[run], widths[run] = first % index.shape[2], np.diff(first, append=begins.size)
    blocks = np.take_along_axis(index, output[:, None], axis=2)
    blocks //= np.int32(block)
    blocks[np.broadcast_to(~run[:, None], blocks.shape)] = -1
    return blocks.reshape(len(index), -1), widths


def _without_padding(index: I32) -> I32:
    """Return an index array in which each padding entry (-1) is replaced by the entry before it.

    Padding before the first entry stays -1.
    """
    if index.min(initial=0) >= 0:
        return index
    places = np.arange(index.shape[1], dtype=np.int32)
    last_real = np.maximum.accumulate(np.where(index >= 0, places, np.int32(0)), axis=1)
    return np.take_along_axis(index, last_real, axis=1)


@_cached_by_content
def _groups(index: I32, coding: Coding) -> tuple[I32, I32]:
    """Return which quantisation groups each row or column of PEs needs, and each input's group.

    A quantisation group is a set of inputs that share a scale. A line is a row or column of PEs.
    Padding belongs to the group of the preceding input.

    Args:
        index: Inputs of each line, int32 ``[lines, inputs]``; -1 for padding.
        coding: Quantisation format of the weights.

    Returns:
        The groups, int32 ``[lines, groups]`` with -1 for padding; and for each input the position
        of its group among them, int32 ``[lines, inputs]``.
    """
    if not coding.group:
        return np.zeros((len(index), 1), np.int32), np.zeros_like(index)
    group = np.maximum(_without_padding(index), 0) // np.int32(coding.group)
    order = np.argsort(group, axis=1, kind="stable") if (group[:, 1:] < group[:, :-1]).any() else None
    ordered = group if order is None else np.take_along_axis(group, order, axis=1)
    begins = np.ones(group.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rank = np.cumsum(begins, axis=1, dtype=np.int32) - np.int32(1)
    touched_groups = np.full((len(index), int(rank.max(initial=-1)) + 1), -1, np.int32)
    touched_groups[np.nonzero(begins)[0], rank[begins]] = ordered[begins]
    if order is None:
        return touched_groups, rank
    place = np.empty_like(rank)
    np.put_along_axis(place, order, rank, axis=1)
    return touched_groups, place
