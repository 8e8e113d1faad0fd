"""Chunk sizes to try, the largest first."""

from __future__ import annotations

from wse_mappings.cuts.split import ceil_div


def halvings(max_size: int, min_size: int) -> list[int]:
    """Return sizes from the largest to the smallest, each half of the one before, rounded up.

    >>> halvings(20, 4)
    [20, 10, 5, 4]
    """
    sizes = [max_size]
    while sizes[-1] > min_size:
        sizes.append(max(min_size, ceil_div(sizes[-1], 2)))
    return sizes


def chunk_sizes(prompt_tokens: int, step: int) -> list[int]:
    """Return sizes of prompt chunks: the whole prompt, then decreasing multiples of ``step``.

    >>> chunk_sizes(20, 8)
    [20, 16, 8]
    """
    sizes = [prompt_tokens]
    for size in halvings(ceil_div(prompt_tokens, step), 1):
        if size * step < sizes[-1]:
            sizes.append(size * step)
    return sizes
