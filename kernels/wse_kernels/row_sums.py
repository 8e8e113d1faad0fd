"""Messages along rows that stay in place, of many words: sums and multicasts on PEs' words side by side."""

from __future__ import annotations

from typing import Any

from wse_kernels._arrivals import ADD, DROP, MULTICAST
from wse_kernels._jit import prange
from wse_kernels._vectors import WIDTH
from wse_kernels._words_of_pes import MOST_COLS, add_words, copy_words, read_words, words_of_pes, write_words

__all__ = ["MOST_COLS", "WIDTH", "along_rows_in_place"]


def along_rows_in_place(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Messages along rows that arrive where they are sent from: sums, copies, and multicasts of all elements.

    ``messages`` int32 ``[m, 3]`` are (source, target, arrival); row r carries out those from ``first[v]`` to
    ``first[v + 1]``, v = ``variant[r]``, in their order. Operands: 0 first row, 1 rows, 2 blocks a row, 3 address, 5
    elements. A block has WIDTH lanes at least.
    """
    for row in prange(a[0], a[0] + a[1]):
        lanes, base, kind, end = view.shape[2], row * a[2], variant[row], a[3] + a[5]
        words = words_of_pes(a[2] * lanes)
        for e in range(a[3], end, WIDTH):
            for block in range(a[2]):
                for lane in range(0, lanes, WIDTH):
                    at = min(lane, lanes - WIDTH)
                    read_words(view, base + block, e, end, at, words, block * lanes + at)
            for i in range(first[kind], first[kind + 1]):
                source, target, arrival = messages[i, 0], messages[i, 1], messages[i, 2]
                if arrival == ADD:
                    add_words(words, target, source, view)
                elif arrival == MULTICAST:
                    for col in range(min(source, target), max(source, target) + 1):
                        copy_words(words, col, source)
                elif arrival != DROP:
                    copy_words(words, target, source)
            for block in range(a[2]):
                for lane in range(0, lanes, WIDTH):
                    at = min(lane, lanes - WIDTH)
                    write_words(view, base + block, e, end, at, words, block * lanes + at)
