"""Group rows by keys, and sum over groups and ranges, without Python loops over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MAX_CODE: Final = 1 << 62


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Return the distinct rows of integer columns, and which distinct row each row equals.

    Each row is encoded as a single number, because numbers can be sorted much faster than rows.

    Args:
        columns: int ``[n]`` each; at least one column.

    Returns:
        The distinct rows in ascending order, int64 ``[row, column]``; and the index of each given
        row among them, int ``[n]``.

    >>> rows, group = distinct_rows([np.array([1, 0, 1]), np.array([5, 5, 5])])
    >>> rows.tolist(), group.tolist()
    ([[0, 5], [1, 5]], [1, 0, 1])
    """
    if not len(columns[0]):
        return np.zeros((0, len(columns)), np.int64), np.zeros(0, np.int64)
    digits = [column.astype(np.int64) for column in columns]
    spans = [int(digit.max()) - int(digit.min()) + 1 for digit in digits]
    if math.prod(spans) > _MAX_CODE:  # the values are too far apart: replace them by their ranks
        digits = [np.unique(digit, return_inverse=True)[1] for digit in digits]
        spans = [int(digit.max()) + 1 for digit in digits]
    code, code_limit = np.zeros(len(columns[0]), np.int64), 1
    for digit, span in zip(digits, spans, strict=True):
        if code_limit * span > _MAX_CODE:  # would overflow: replace the codes so far by their ranks
            code = np.unique(code, return_inverse=True)[1]
            code_limit = int(code.max()) + 1
        code, code_limit = code * span + (digit - digit.min()), code_limit * span
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return np.stack([column[first].astype(np.int64) for column in columns], axis=1), group


def group_sums(values: Array, group: Array, groups: int) -> Array:
    """Return the exact sum of the values of each group, int64 ``[group]``.

    Args:
        values: int ``[n]``.
        group: Index of the group of each value, int ``[n]``.
        groups: Number of groups.

    >>> group_sums(np.array([1, 2, 4]), np.array([1, 0, 1]), 3).tolist()
    [2, 5, 0]
    """
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, group, values)
    return sums


def range_sums(column: Array, first: Array, end: Array) -> Array:
    """Return the sum of a column over each of several ranges of rows, int64 ``[range, ...]``.

    Args:
        column: int ``[row, ...]``.
        first: First row of each range, int ``[range]``.
        end: Row after the last of each range, int ``[range]``.

    >>> range_sums(np.array([1, 2, 4]), np.array([0, 1]), np.array([2, 3])).tolist()
    [3, 6]
    """
    running_sums = np.concatenate([np.zeros((1, *column.shape[1:]), np.int64), np.cumsum(column, axis=0)])
    sums: Array = running_sums[end] - running_sums[first]
    return sums
