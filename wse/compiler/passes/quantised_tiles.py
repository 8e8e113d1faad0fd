"""The tiles of quantised weights: codes in place of weights, their scales, and which group each row is of.

Groups run along the model's own contraction index, so that weights are the same on every mesh; a PE's share of it may
begin and end inside groups. It holds the scales of those that it touches, as many as the PE that touches the most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse.arrays import I32
from wse.compiler.passes.tiles import part_of, tile_of
from wse.errors import DoesNotFit
from wse.models.tensors.model_tensors import is_linear
from wse.number_formats import CODINGS, GROUP_NUMBERS, MOST_GROUPS, Coding, codes_name, scales_name
from wse.program.program import Tile


def groups_name(tile: str) -> str:
    """The tile that says which group each row of a weight tile is of; layers share it.

    >>> groups_name("layers.3.q+layers.3.k+layers.3.v")
    'groups.q'
    """
    first = tile.partition("+")[0]
    return f"groups.{first.split('.', 2)[-1]}"


def coded_tiles(tile: Tile, weight_type: str) -> list[Tile]:
    """The tiles that stand for a tile ``[inputs, outputs]`` of weights: itself, or what a coding makes of it.

    Its parts hold the same inputs as the first, or none where a column has fewer experts than others.

    Raises DoesNotFit when a PE would hold more groups than a byte can number.
    """
    coding = CODINGS.get(weight_type)
    if coding is None or not all(is_linear(part.tensor) for part in tile.parts):
        return [tile]
    index, axis = tile.parts[0].outer, tile.parts[0].outer_axis
    assert index is not None
    touched, number = _groups(index, coding)
    if touched.shape[1] > MOST_GROUPS:
        message = (
            f"{tile.name} does not fit as {coding.name}: a PE would hold {touched.shape[1]} groups of inputs, "
            f"at most {MOST_GROUPS} can be numbered"
        )
        raise DoesNotFit(message)
    codes = tuple(replace(part, tensor=codes_name(part.tensor)) for part in tile.parts)
    scales = tuple(replace(part, tensor=scales_name(part.tensor), outer=touched) for part in tile.parts)
    tiles = [
        replace(tile, view="raw", coding=coding.name, parts=codes),
        replace(tile, name=scales_name(tile.name), outer=touched.shape[1], parts=scales),
    ]
    if coding.group:
        numbers = tile_of([part_of(GROUP_NUMBERS, None, (number, axis))], view="raw", name=groups_name(tile.name))
        tiles.append(numbers)
    return tiles


def _groups(index: I32, coding: Coding) -> tuple[I32, I32]:
    """Groups that each line touches, int32 ``[lines, most]``, -1 for padding; and each input's place among them.

    ``index`` is int32 ``[lines, inputs]``. What is padding there belongs to the group before it.
    """
    if not coding.group:
        return np.zeros((len(index), 1), np.int32), np.zeros_like(index)
    last_real = np.maximum.accumulate(np.where(index >= 0, np.arange(index.shape[1]), 0), axis=1)
    group = np.maximum(np.take_along_axis(index, last_real, axis=1), 0) // coding.group
    order = np.argsort(group, axis=1, kind="stable")
    ordered = np.take_along_axis(group, order, axis=1)
    place, rank = np.zeros_like(group), np.zeros_like(group)
    rank[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
    np.put_along_axis(place, order, rank, axis=1)
    touched = np.full((len(index), int(rank.max(initial=-1)) + 1), -1, np.int32)
    np.put_along_axis(touched, rank, ordered, axis=1)
    return touched, place.astype(np.int32)
