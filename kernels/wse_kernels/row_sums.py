"""Messages along rows that stay in place, of many words: sums and multicasts on PEs' words side by side."""

from __future__ import annotations

from typing import Any

from wse_kernels._carried_words import carry_words
from wse_kernels._jit import helper_function, prange
from wse_kernels._vectors import WIDTH
from wse_kernels._words_of_pes import MOST_COLS, read_words, words_of_pes, write_words

__all__ = ["MOST_COLS", "WIDTH", "along_rows_in_place"]

VECTORS_AT_ONCE = 8
"""Vectors of a PE's words that are transposed at once at the most."""
NEAR_PES = 384
"""PEs of which a vector each stays in the nearest cache."""


def along_rows_in_place(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Messages along rows that arrive where they are sent from: sums, copies, and multicasts of all elements.

    ``messages`` int32 ``[m, 3]`` are (source, target, arrival); row r executes those from ``first[v]`` to
    ``first[v + 1]``, v = ``variant[r]``, in their order. Operands: 0 first row, 1 rows, 2 blocks a row, 3 address, 5
    elements. A block has WIDTH lanes at least.
    """
    for row in prange(a[0], a[0] + a[1]):
        base, kind, end, cols = row * a[2], variant[row], a[3] + a[5], a[2] * view.shape[2]
        words = words_of_pes(MOST_COLS)
        vectors = max(1, min(VECTORS_AT_ONCE, NEAR_PES // cols))
        for begin in range(a[3], end, vectors * WIDTH):
            count = min(vectors, (end - begin + WIDTH - 1) // WIDTH)
            for vector in range(count):
                _exchange_words(view, base, a[2], begin + vector * WIDTH, end, words, vector * cols, 1)
            carry_words(words, cols, count, messages, first[kind], first[kind + 1], view)
            for vector in range(count):
                _exchange_words(view, base, a[2], begin + vector * WIDTH, end, words, vector * cols, 0)


@helper_function
def _exchange_words(view: Any, base: int, blocks: int, e: int, end: int, words: Any, place: int, read: int) -> None:
    """Read WIDTH elements of all PEs of a row, whose blocks begin with ``base``, or write them back."""
    lanes = view.shape[2]
    for block in range(blocks):
        for lane in range(0, lanes, WIDTH):
            at = min(lane, lanes - WIDTH)
            if read:
                read_words(view, base + block, e, end, at, words, place + block * lanes + at)
            else:
                write_words(view, base + block, e, end, at, words, place + block * lanes + at)
