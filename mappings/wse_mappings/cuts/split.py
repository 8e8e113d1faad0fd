"""Cutting an extent over a line of PEs."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


def ceil_div(a: int, b: int) -> int:
    """Return the smallest integer that is not below a / b.

    >>> ceil_div(7, 3)
    3
    """
    return -(-a // b)


@lru_cache(maxsize=128)
def padded_blocks(extent: int, parts: int) -> I32:
    """int32 ``[parts, ceil(extent / parts)]``: the indices of each block, -1 where the last ones are padding.

    >>> padded_blocks(5, 3).tolist()
    [[0, 1], [2, 3], [4, -1]]
    """
    width = ceil_div(extent, parts)
    index = np.arange(parts * width, dtype=np.int32).reshape(parts, width)
    return np.where(index < extent, index, np.int32(-1))


def blocks_in_the_middle(extent: int, parts: int) -> I32:
    """`padded_blocks`, whose first block is that of a later part where blocks are fewer than parts: the middle ones'.

    >>> blocks_in_the_middle(2, 5).tolist()
    [[-1], [0], [1], [-1], [-1]]
    """
    index = padded_blocks(extent, parts)
    return np.roll(index, first_in_the_middle(extent, parts), axis=0)


def first_in_the_middle(extent: int, parts: int) -> int:
    """Return the part that has the first of `blocks_in_the_middle`."""
    return middle_stretch(ceil_div(extent, max(1, ceil_div(extent, parts))), parts)[0]


def middle_stretch(count: int, parts: int) -> tuple[int, int]:
    """(first, count) of the parts in the middle.

    >>> middle_stretch(2, 5)
    (1, 2)
    """
    return (parts - count) // 2, count


def on_the_middle(index: I32, parts: int) -> I32:
    """An index ``[few, n]`` as that of more parts, of which the ones in the middle have it and the others padding.

    >>> on_the_middle(padded_blocks(2, 2), 5).tolist()
    [[-1], [0], [1], [-1], [-1]]
    """
    first, count = middle_stretch(len(index), parts)
    if count == parts:
        return index
    return np.pad(index, ((first, parts - first - count), (0, 0)), constant_values=-1)


@lru_cache(maxsize=128)
def grouped_blocks(extent: int, parts: int, group: int) -> I32:
    """int32 ``[parts, n]``: blocks of no more groups of ``group`` indices than need be, -1 for padding.

    Where there are as many parts as groups, no block has indices of two groups; each group is cut into as many parts as
    its narrowest blocks take, and parts may be left over. Else each part has whole groups.

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
        for whole in [min(group, extent - number * group)]
        for first, size in balanced_segments(whole, ceil_div(whole, width))
    ]
    whole_groups = np.full((parts, width), -1, np.int32)
    for part, (first, size) in enumerate(cuts):
        whole_groups[part, :size] = np.arange(first, first + size)
    return whole_groups


def blocks(extent: int, parts: int, group: int) -> I32:
    """`grouped_blocks`, or `padded_blocks` where ``group`` is 0."""
    return grouped_blocks(extent, parts, group) if group else padded_blocks(extent, parts)


def balanced_counts(total: int, parts: int) -> I32:
    """int32 ``[parts]``: total spread so that counts differ by at most one, the larger ones first.

    >>> balanced_counts(5, 3).tolist()
    [2, 2, 1]
    """
    counts = np.full(parts, total // parts, np.int32)
    counts[: total % parts] += 1
    return counts


def even_segments(start: int, total: int, parts: int) -> list[tuple[int, int]]:
    """(start, length) of ``parts`` segments of about equal length, part i from ``start + i total // parts`` on.

    >>> even_segments(2, 5, 3)
    [(2, 1), (3, 2), (5, 2)]
    """
    edges = [start + part * total // parts for part in range(parts + 1)]
    return [(first, end - first) for first, end in pairwise(edges)]


def balanced_segments(total: int, parts: int) -> list[tuple[int, int]]:
    """(start, length) of each part of ``balanced_counts``.

    >>> balanced_segments(5, 3)
    [(0, 2), (2, 2), (4, 1)]
    """
    size, larger = divmod(total, parts)
    return [(part * size + min(part, larger), size + (part < larger)) for part in range(parts)]
