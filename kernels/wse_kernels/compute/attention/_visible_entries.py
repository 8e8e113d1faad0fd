"""Cache entries that a token attends to, and their scaled scores.

An entry is visible to a token if all of the following hold:

1. Its position is not later than the token's.
2. It is at most ``window`` - 1 positions before the token's. A window of 0 means no limit.
3. It is in the same chunk of ``chunk`` positions as the token. A chunk of 0 means no chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wse_kernels.codegen.elements import widen
from wse_kernels.codegen.jit import helper_function

OLDEST, SLOTS = 7, 8  # words of ctl: the oldest entry's slot, the first slot's position
LOWEST = np.float32(-3.0e38)  # maximum score if no entry is visible
UNSEEN = np.float32(-np.inf)  # score of an entry that is not visible; its exponential is 0
BY_COLUMN = -1  # in place of a capacity: columns have the entries of different rows


class Slots(NamedTuple):
    """Location of a row's KV-cache entries in the slots of its cache.

    A slot stores the key and value of one token. Entries are stored in order of age, the oldest
    first, and wrap around the end of the cache.

    Attributes:
        oldest: Slot of the oldest entry.
        capacity: Number of slots. The constant BY_COLUMN instead means that mesh column c processes
            the entries of mesh row c, which start at slot 0.
    """

    oldest: int
    capacity: int


class VisibleRange(NamedTuple):
    """First and last position in the sequence that a token attends to."""

    first: int
    last: int


@helper_function
def visible_range_of(position, limits):
    """Return the first and last position that a token at ``position`` attends to.

    ``limits`` contains the lengths of the sliding window and of attention chunks. 0 means no limit.
    """
    window, chunk = limits
    first = max(position - window + 1 if window > 0 else 0, position // chunk * chunk if chunk > 0 else 0)
    return VisibleRange(first, position)


@helper_function
def scale_scores(place, acc, ctl, values, e, t, scale, visible_range, slots):
    """Set ``values`` to the scaled scores of cache entry ``t``, or to -inf if it is not visible.

    Args:
        place: Position of the block (group of neighbouring PEs).
        acc: SRAM as accumulator elements [block, address, PE of block].
        ctl: Token and cache counters of each mesh row.
        values: float32 array with one element per lane (PE of the block), overwritten.
        e: Address of the score.
        t: Index of the cache entry.
        scale: Factor applied to the scores.
        visible_range: Range of positions that the token attends to.
        slots: Location of the entries in the cache.

    Returns:
        Whether the entry may be visible in any lane. If not, the caller skips the exponential,
        which is 0.
    """
    block, lanes, is_visible = place.block, len(values), True
    first, last = visible_range
    if slots.capacity == BY_COLUMN:
        columns = min(lanes, len(ctl) - place.col)
        for lane in range(columns):
            position = ctl[place.col + lane, SLOTS + t]
            score = widen(acc[block, e, lane]) * scale
            values[lane] = score if position >= first and position <= last else UNSEEN
        for lane in range(columns, lanes):
            values[lane] = UNSEEN
    else:
        position = ctl[place.row, SLOTS + (slots.oldest + t) % slots.capacity]
        is_visible = position >= first and position <= last
        for lane in range(lanes if is_visible else 0):
            values[lane] = widen(acc[block, e, lane]) * scale
        for lane in range(0 if is_visible else lanes):
            values[lane] = UNSEEN
    return is_visible
