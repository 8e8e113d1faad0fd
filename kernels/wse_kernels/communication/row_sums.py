"""Transfer kernel for long messages along rows that send and receive at the same address."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.jit import helper_function, prange
from wse_kernels.codegen.vectors import WIDTH
from wse_kernels.communication._carried_words import carry_words
from wse_kernels.communication._words_of_pes import MAX_COLS, read_words, words_of_pes, write_words

__all__ = ["MAX_COLS", "WIDTH", "along_rows_in_place"]

VECTORS_AT_ONCE = 8
"""Maximum number of vectors of a PE's words that are transposed at once."""
NEAR_PES = 384
"""Number of PEs whose vectors fit in the first-level cache, one vector each."""


def along_rows_in_place(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute messages along mesh rows whose source and target addresses are the same.

    The messages are sums, copies and multicasts of all elements. They are executed on transposed
    words, so that the words of each PE are contiguous. A block has at least WIDTH PEs.

    Args:
        view: SRAM of the region, ``[block, address, lane]``.
        messages: int32 ``[m, 3]``: source PE, target PE, arrival code.
        first: Index of the first message in each message list, and the end of the last list.
        variant: Index of the list that each row executes.
        a: Operands: 0 first row, 1 rows, 2 blocks per row, 3 address, 5 elements.
    """
    for row in prange(a[0], a[0] + a[1]):
        base, kind, end, cols = row * a[2], variant[row], a[3] + a[5], a[2] * view.shape[2]
        words = words_of_pes(MAX_COLS)
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
    """Transpose WIDTH elements of all PEs of a mesh row from SRAM into ``words``, or back.

    In ``words``, the elements of a PE are contiguous.

    Args:
        view: SRAM of the region.
        base: First block of the row.
        blocks: Blocks per row.
        e, end: Address of the first element, and the end of the valid elements.
        words: Transposed elements.
        place: Index in ``words`` of the vector of the first PE.
        read: 1 to read from SRAM, 0 to write to SRAM.
    """
    lanes = view.shape[2]
    for block in range(blocks):
        for lane in range(0, lanes, WIDTH):
            at = min(lane, lanes - WIDTH)
            if read:
                read_words(view, base + block, e, end, at, words, place + block * lanes + at)
            else:
                write_words(view, base + block, e, end, at, words, place + block * lanes + at)
