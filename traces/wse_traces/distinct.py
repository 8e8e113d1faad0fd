"""Rows that are alike, found through one number for each row: much faster than sorting whole rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST: Final = 1 << 62


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, Array]:
    """The distinct rows of integer columns, int64 ``[row, column]`` in ascending order, and which one each row is.

    >>> rows, of = distinct_rows([np.array([1, 0, 1]), np.array([5, 5, 5])])
    >>> rows.tolist(), of.tolist()
    ([[0, 5], [1, 5]], [1, 0, 1])
    """
    if not len(columns[0]):
        return np.zeros((0, len(columns)), np.int64), np.zeros(0, np.int64)
    digits = [column.astype(np.int64) for column in columns]
    spans = [int(digit.max()) - int(digit.min()) + 1 for digit in digits]
    if math.prod(spans) > _MOST:  # values far apart: their places among each other instead
        digits = [np.unique(digit, return_inverse=True)[1] for digit in digits]
        spans = [int(digit.max()) + 1 for digit in digits]
    code, below = np.zeros(len(columns[0]), np.int64), 1
    for digit, span in zip(digits, spans, strict=True):
        if below * span > _MOST:
            code = np.unique(code, return_inverse=True)[1]
            below = int(code.max()) + 1
        code, below = code * span + (digit - digit.min()), below * span
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    return np.stack([column[first].astype(np.int64) for column in columns], axis=1), of
