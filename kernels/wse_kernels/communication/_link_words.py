"""Counters of the words on every link.

``links`` counts words, int64 ``[direction, row, col]``, where the directions are north, east,
south, west and (row, col) is the PE that the word leaves. Only kernels whose messages depend on the
contents of SRAM count words. For all others, `wse.backends.execute.calls.line_loads` computes the
words from the messages.
"""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.jit import helper_function

NORTH, EAST, SOUTH, WEST = 0, 1, 2, 3


@helper_function
def count_column_words(links: Any, start: int, end: int, west: int, east: int, words: int) -> None:
    """Count the words of a message on all links from row ``start`` to row ``end``.

    The message is sent in each of the columns ``west`` to ``east`` - 1.

    Args:
        links: Number of words on each link, ``[direction, row, col]``, incremented in place.
        start, end: Rows of the sender and of the receiver.
        west, east: First column, and column after the last one.
        words: Number of words of the message.
    """
    for row in range(start, end):
        for col in range(west, east):
            links[SOUTH, row, col] += words
    for row in range(end + 1, start + 1):
        for col in range(west, east):
            links[NORTH, row, col] += words
