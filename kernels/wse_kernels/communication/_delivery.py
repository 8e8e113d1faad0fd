"""Delivery of one message to its target: replace, add or compare elements, by lane or by block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function
from wse_kernels.communication._moved_rows import add_rows, copy_rows, take_larger_rows
from wse_kernels.operands.arrivals import ADD, ARGMAX, MAX


class Elements(NamedTuple):
    """Position of consecutive elements in the SRAM of one PE.

    Attributes:
        block, lane: Block (group of neighbouring PEs) that contains the PE, and the PE's index in
            the block.
        address: Address of the first element.
    """

    block: int
    lane: int
    address: int


@helper_function
def deliver(view: Any, source: Elements, target: Elements, n: int, arrival: int, rows: int, per_row: int) -> None:
    """Send ``n`` elements from one PE to another, in each of ``rows`` mesh rows.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        source, target: Positions of the sent and the received elements in the first row.
        n: Number of elements. For ARGMAX, they are (value, index) pairs, so n is even.
        arrival: What happens to the target's elements: they are replaced, or ADD, MAX or ARGMAX
            combines them with the sent elements.
        rows: Number of mesh rows.
        per_row: Number of blocks (groups of neighbouring PEs) in a mesh row.
    """
    if arrival == ARGMAX:
        for e in range(0, n, 2):
            for row in range(rows):
                step = row * per_row
                _take_larger_pair(
                    view,
                    Elements(target.block + step, target.lane, target.address + e),
                    Elements(source.block + step, source.lane, source.address + e),
                )
    else:
        # Numba generates no code for negative indices if indices are unsigned.
        to, origin = np.uint64(target.lane), np.uint64(source.lane)
        for e in range(n):
            at, from_at = np.uint64(target.address + e), np.uint64(source.address + e)
            for row in range(rows):
                block, from_block = np.uint64(target.block + row * per_row), np.uint64(source.block + row * per_row)
                old, new = view[block, at, to], view[from_block, from_at, origin]
                if arrival == ADD:
                    new = narrow(widen(old) + widen(new), old)
                elif arrival == MAX:
                    new = narrow(max(widen(old), widen(new)), old)
                view[block, at, to] = new


@helper_function
def _take_larger_pair(view: Any, target: Elements, source: Elements) -> None:
    """Replace a stored (value, index) pair by the received pair if the received pair wins.

    The pair with the larger value wins. On a tie, the pair with the lower index wins.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        target, source: Positions of the stored and the received pair.
    """
    block, lane = np.uint64(target.block), np.uint64(target.lane)
    at, index = np.uint64(target.address), np.uint64(target.address + 1)
    from_block, from_lane = np.uint64(source.block), np.uint64(source.lane)
    old, new = view[block, at, lane], view[from_block, np.uint64(source.address), from_lane]
    old_index, new_index = view[block, index, lane], view[from_block, np.uint64(source.address + 1), from_lane]
    if widen(new) > widen(old) or (widen(new) == widen(old) and widen(new_index) < widen(old_index)):
        view[block, at, lane] = new
        view[block, index, lane] = new_index


@helper_function
def fill_lanes(
    view: Any, sender: int, lane: int, source: int, base: int, west: int, east: int, target: int, n: int
) -> None:
    """Copy n elements of one PE to all PEs in columns ``west`` to ``east`` of its mesh row.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        sender, lane, source: Block and lane of the sending PE, and address of its elements.
        base: First block of the mesh row.
        west, east: First and last column to receive the elements.
        target: Address at the receiving PEs.
        n: Number of elements.
    """
    lanes = view.shape[2]
    for block in range(west // lanes, east // lanes + 1):
        first, end = max(west - block * lanes, 0), min(east + 1 - block * lanes, lanes)
        receiver = np.uint64(base + block)
        for e in range(n):
            new, at = view[sender, source + e, lane], np.uint64(target + e)
            for to in range(np.uint64(first), np.uint64(end)):
                view[receiver, at, to] = new


@helper_function
def deliver_lanes(view: Any, sender: int, source: int, receiver: int, target: int, n: int, arrival: int) -> None:
    """Send ``n`` elements from every PE of a block to the PE with the same index in another block.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        sender, source: Sending block, and address of the elements in each of its PEs.
        receiver, target: Receiving block, and address of the elements in each of its PEs.
        n: Number of elements of each PE. For ARGMAX, they are (value, index) pairs, so n is even.
        arrival: What happens to the receiver's elements: they are replaced, or ADD, MAX or ARGMAX
            combines them with the sent elements.
    """
    lanes = view.shape[2]
    if arrival == ARGMAX:
        for e in range(0, n, 2):
            for lane in range(lanes):
                _take_larger_pair(view, Elements(receiver, lane, target + e), Elements(sender, lane, source + e))
    elif arrival == ADD:
        add_rows(view, receiver, target, sender, source, n)
    elif arrival == MAX:
        take_larger_rows(view, receiver, target, sender, source, n)
    else:
        copy_rows(view, receiver, target, sender, source, n)
