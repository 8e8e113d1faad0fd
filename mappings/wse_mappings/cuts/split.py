"""Partitioning of an extent across a line of PEs, and redistribution to another partitioning."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wse_mappings.rounding import ceil_div

I32 = npt.NDArray[np.int32]


@lru_cache(maxsize=128)
def padded_blocks(extent: int, parts: int) -> I32:
    """Divide the indices 0 to ``extent`` - 1 into ``parts`` equal blocks, padded with -1.

    The result is int32 ``[parts, ceil(extent / parts)]``.

    >>> padded_blocks(5, 3).tolist()
    [[0, 1], [2, 3], [4, -1]]
    """
    width = ceil_div(extent, parts)
    index = np.arange(parts * width, dtype=np.int32).reshape(parts, width)
    return np.where(index < extent, index, np.int32(-1))


def blocks_in_the_middle(extent: int, parts: int) -> I32:
    """Divide indices into equally sized blocks, and place the blocks on the middle parts.

    Args:
        extent: Number of indices.
        parts: Number of parts, for example PEs of a line. Parts without a block contain only
            padding (-1).

    Returns:
        int32 ``[parts, n]``, with the same blocks as `padded_blocks`.

    >>> blocks_in_the_middle(2, 5).tolist()
    [[-1], [0], [1], [-1], [-1]]
    """
    index = padded_blocks(extent, parts)
    return np.roll(index, first_in_the_middle(extent, parts), axis=0)


def first_in_the_middle(extent: int, parts: int) -> int:
    """Return the index of the first part that gets indices from `blocks_in_the_middle`.

    That function divides ``extent`` indices into equal blocks and places them on the middle ones of
    ``parts`` parts, so that the first and last parts may remain empty.
    """
    return middle_segment(ceil_div(extent, max(1, ceil_div(extent, parts))), parts)[0]


def middle_segment(count: int, parts: int) -> tuple[int, int]:
    """Return the ``count`` consecutive parts in the middle of ``parts`` parts, as (first, count).

    >>> middle_segment(2, 5)
    (1, 2)
    """
    return (parts - count) // 2, count


def on_the_middle(index: I32, parts: int) -> I32:
    """Add rows of -1 around an index array, so that it is in the middle of ``parts`` rows.

    >>> on_the_middle(padded_blocks(2, 2), 5).tolist()
    [[-1], [0], [1], [-1], [-1]]
    """
    first, count = middle_segment(len(index), parts)
    if count == parts:
        return index
    return np.pad(index, ((first, parts - first - count), (0, 0)), constant_values=-1)


@lru_cache(maxsize=128)
def grouped_blocks(extent: int, parts: int, group: int) -> I32:
    """Divide indices into blocks that touch as few groups of ``group`` indices as possible.

    If there are at least as many parts as groups, each block is within one group. In this case,
    each group is divided into the fewest blocks that keep the largest block as small as possible,
    and some parts may remain empty. Otherwise each part contains whole groups.

    Args:
        extent: Number of indices.
        parts: Number of blocks.
        group: Number of consecutive indices in a group.

    Returns:
        int32 ``[parts, n]``, with -1 for padding.

    >>> grouped_blocks(8, 5, 4).tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7], [-1, -1]]
    >>> grouped_blocks(10, 2, 4).tolist()
    [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, -1, -1, -1, -1, -1, -1]]
    """
    groups = ceil_div(extent, group)
    if groups == 0 or parts < groups:
        index = np.arange(parts * ceil_div(groups, parts) * group, dtype=np.int32).reshape(parts, -1)
        return np.where(index < extent, index, np.int32(-1))
    width = ceil_div(group, parts // groups)
    cuts = [
        (number * group + first, size)
        for number in range(groups)
        for group_size in [min(group, extent - number * group)]
        for first, size in balanced_segments(group_size, ceil_div(group_size, width))
    ]
    whole_groups = np.full((parts, width), -1, np.int32)
    for part, (first, size) in enumerate(cuts):
        whole_groups[part, :size] = np.arange(first, first + size)
    return whole_groups


def blocks(extent: int, parts: int, group: int) -> I32:
    """Divide the indices 0 to ``extent`` - 1 into ``parts`` blocks, padded with -1.

    Args:
        extent: Number of indices.
        parts: Number of blocks.
        group: Number of consecutive indices to keep together if possible (`grouped_blocks`); 0 for
            equally sized blocks (`padded_blocks`).
    """
    return grouped_blocks(extent, parts, group) if group else padded_blocks(extent, parts)


def balanced_counts(total: int, parts: int) -> I32:
    """Divide ``total`` into ``parts`` counts that differ by at most one, with larger counts first.

    >>> balanced_counts(5, 3).tolist()
    [2, 2, 1]
    """
    counts = np.full(parts, total // parts, np.int32)
    counts[: total % parts] += 1
    return counts


def even_segments(start: int, total: int, parts: int) -> list[tuple[int, int]]:
    """Divide ``total`` consecutive numbers, beginning with ``start``, into nearly equal segments.

    Args:
        start: First number.
        total: Number of numbers.
        parts: Number of segments.

    Returns:
        (start, length) of each segment.

    >>> even_segments(2, 5, 3)
    [(2, 1), (3, 2), (5, 2)]
    """
    edges = [start + part * total // parts for part in range(parts + 1)]
    return [(first, end - first) for first, end in pairwise(edges)]


def balanced_segments(total: int, parts: int) -> list[tuple[int, int]]:
    """Divide the numbers 0 to ``total`` - 1 into segments whose lengths differ by at most one.

    Longer segments come first.

    Returns:
        (start, length) of each segment.

    >>> balanced_segments(5, 3)
    [(0, 2), (2, 2), (4, 1)]
    """
    size, larger = divmod(total, parts)
    return [(part * size + min(part, larger), size + (part < larger)) for part in range(parts)]


def max_copies(extent: int, parts: int, max_count: int) -> int:
    """Return how many copies of a vector of outputs fit on a line of PEs.

    The line is divided into equal segments, and each segment stores all outputs. All PEs that store
    outputs must store the same number of them. The result is 1 if two or more segments are
    impossible.

    Args:
        extent: Number of outputs.
        parts: Number of PEs in the line.
        max_count: Maximum number of outputs per PE.

    >>> max_copies(128, 755, 1), max_copies(256, 1170, 1), max_copies(256, 1170, 2)
    (5, 3, 9)
    >>> max_copies(160, 256, 1)
    1
    """
    for copies in range(parts * max_count // max(1, extent), 1, -1):
        if not parts % copies and not extent % ceil_div(extent, parts // copies):
            return copies
    return 1


def copied_blocks(extent: int, parts: int, copies: int) -> I32:
    """Return which outputs each PE of a line stores if there are several copies of all outputs.

    The line of ``parts`` PEs is divided into ``copies`` equal segments. Each stores all ``extent``
    outputs, in blocks on its middle PEs (`blocks_in_the_middle`).

    Returns:
        int32 ``[parts, n]``, with -1 for padding.

    >>> copied_blocks(2, 6, 2).tolist()
    [[0], [1], [-1], [0], [1], [-1]]
    """
    return np.tile(blocks_in_the_middle(extent, parts // copies), (copies, 1))


I64 = npt.NDArray[np.int64]
SENDER, RECEIVER, FIRST, PLACE, COUNT = range(5)
"""Columns of the transfers that `redistribution` and `whole_tiles` return."""


@lru_cache(maxsize=64)
def redistribution(extent: int, rows: int, target_rows: int, group: int = 0, target_group: int = 0) -> I64:
    """Return the transfers that move a vector from ``rows`` rows to ``target_rows`` rows of PEs.

    The vector is partitioned across the rows of one region and must be redistributed across the
    rows of another. Each transfer moves consecutive elements, called a piece, from one row to
    another.

    Args:
        extent: Number of elements.
        rows, target_rows: Number of rows of the sending and the receiving region.
        group, target_group: Number of elements to keep together when dividing the vector over the
            rows of each region; 0 to divide it evenly.

    Returns:
        int64 ``[pieces, 5]``: sending row, receiving row, first element in the sender's tile, first
        element in the receiver's tile, number of elements.

    >>> redistribution(6, 3, 2).tolist()
    [[0, 0, 0, 0, 2], [1, 0, 0, 2, 1], [1, 1, 1, 0, 1], [2, 1, 0, 1, 2]]
    """
    source, target = blocks(extent, rows, group), blocks(extent, target_rows, target_group)
    start = np.union1d(_starts(source), _starts(target))
    ends = [np.searchsorted(_starts(cut), start, side="right") - 1 for cut in (source, target)]
    offsets = [start - _starts(cut)[row] for cut, row in zip((source, target), ends, strict=True)]
    return np.stack([*ends, *offsets, np.diff(start, append=extent)], axis=1)


def _starts(cut: I32) -> I64:
    """Return the first element of each row that stores any elements, int64 ``[n]``.

    Args:
        cut: int32 ``[rows, n]``: elements of each row, with -1 for padding. Rows without elements
            come last.
    """
    return np.asarray(cut[cut[:, 0] >= 0, 0], np.int64)


def whole_tiles(elements: int, rows: int, target_rows: int) -> I64:
    """Return the transfers that copy whole tiles from ``rows`` rows to ``target_rows`` rows of PEs.

    Each receiving row gets all ``elements`` elements of one sending row.

    Returns:
        int64 ``[transfers, 5]``: sending row, receiving row, first element in the sender's tile,
        first element in the receiver's tile, number of elements.

    >>> whole_tiles(7, 2, 3).tolist()
    [[0, 0, 0, 0, 7], [0, 1, 0, 0, 7], [1, 2, 0, 0, 7]]
    """
    receiver = np.arange(target_rows, dtype=np.int64)
    zeros = np.zeros_like(receiver)
    return np.stack([receiver * rows // target_rows, receiver, zeros, zeros, zeros + elements], axis=1)
