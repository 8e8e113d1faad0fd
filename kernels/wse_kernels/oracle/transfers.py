"""Oracles of the kernels that move words between PEs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_kernels.oracle.memory import I64, Bytes, narrow, put, take, widen

I32 = npt.NDArray[np.int32]

MULTICAST, COPY, DROP = 4, 5, 6
NORTH, EAST, SOUTH, WEST = 0, 1, 2, 3
WORD_BYTES = 4


def along_rows(memory: Bytes, element: str, messages: I32, first: I32, variant: I32, a: I64) -> I64:
    """Execute messages between the PEs of each mesh row, in order.

    A message sends elements from one PE to another. This reference is used to test the compiled
    kernel of the same name.

    Args:
        memory, element: SRAM ``uint8[rows, cols, bytes]``, changed in place, and the element type.
        messages: int32 ``[m, 5]``: source PE, target PE, arrival code, first element, number of
            elements. The arrival code specifies what happens at the target, for example that
            elements are added.
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Index of the list that each row executes.
        a: Operands of the kernel `wse_kernels.communication.row_messages.along_rows`.

    Returns:
        int64 ``[4, rows, cols]``: number of words that left each PE to the north, east, south and
        west.
    """
    links = np.zeros((4, *memory.shape[:2]), np.int64)
    for row in range(a[0], a[0] + a[1]):
        line_messages = messages[first[variant[row]] : first[variant[row] + 1]]
        _carry(memory[row], element, line_messages, a, links[EAST, row], links[WEST, row])
    return links


def along_columns(memory: Bytes, element: str, messages: I32, first: I32, variant: I32, a: I64) -> I64:
    """Execute messages between the PEs of each mesh column, in order.

    A message sends elements from one PE to another. This reference is used to test the compiled
    kernel of the same name.

    Args:
        memory, element: SRAM ``uint8[rows, cols, bytes]``, changed in place, and the element type.
        messages: int32 ``[m, 5]``: source row, target row, arrival code, first element, number of
            elements. The arrival code specifies what happens at the target, for example that
            elements are added.
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Index of the list that each column executes.
        a: Operands of the kernel `wse_kernels.communication.column_messages.along_columns`.

    Returns:
        int64 ``[4, rows, cols]``: number of words that left each PE to the north, east, south and
        west.
    """
    links = np.zeros((4, *memory.shape[:2]), np.int64)
    for col in range(a[7]):
        column_variant = variant[col] if a[6] else variant[0]
        line_messages = messages[first[column_variant] : first[column_variant + 1]]
        _carry(memory[:, col], element, line_messages, a, links[SOUTH, :, col], links[NORTH, :, col])
    return links


def along_columns_counted(
    memory: Bytes, count_memory: Bytes, element: str, links: I64, messages: I32, first: I32, variant: I32, a: I64
) -> None:
    """Execute messages between the PEs of each mesh column, with lengths that depend on a count.

    A message sends a[11] + count * a[5] elements, where the count is read from the first PE of its
    column. This reference is used to test the compiled kernel of the same name.

    Args:
        memory, count_memory: SRAM with the elements, changed in place, and SRAM with the float32
            counts.
        element: Element type.
        links: Number of words that left each PE, ``[direction, row, col]``, incremented in place.
        messages: int32 ``[m, 3]``: source row, target row, arrival code (what the target does with
            the elements, for example add them).
        first: Index of the first message of each list of messages; finally, the number of messages.
        variant: Array whose first element is the index of the list that all columns execute.
        a: Operands of the kernel `wse_kernels.communication.column_messages.along_columns_counted`.
    """
    for col in range(a[7]):
        count = min(max(int(widen(take(count_memory[0, col], "float32", a[9], 1), "float32")[0]), 0), a[10])
        line_messages = messages[first[variant[0]] : first[variant[0] + 1]]
        element_range = np.tile(np.array([0, a[11] + count * a[5]], np.int32), (len(line_messages), 1))
        line_messages = np.concatenate([line_messages, element_range], axis=1)
        _carry(memory[:, col], element, line_messages, a, links[SOUTH, :, col], links[NORTH, :, col])


def cache_shift(memory: Bytes, element: str, links: I64, ctl: I32, a: I64) -> None:
    """Move the oldest KV-cache entry of some mesh rows to the row above.

    The counters ``ctl`` say which rows send an entry. All entries are read before any is written.
    This reference is used to test the compiled kernel of the same name.

    Args:
        memory, element: SRAM ``uint8[rows, cols, bytes]``, changed in place, and the element type.
        links: Number of words that left each PE, ``[direction, row, col]``, incremented in place.
        ctl: Token and cache counters, ``[row, word]``. Word 5 is the slot whose entry the row
            sends, or -1 if it sends none. Word 6 is the slot that receives the entry of the row
            below.
        a: Operands: a[0] rows, a[2] cache address, a[3] elements per entry, a[4] words per entry,
            a[5] columns.
    """
    rows, cache, n, words, columns = a[0], a[2], a[3], a[4], a[5]
    passing = [row for row in range(1, rows) if ctl[row, 5] >= 0]
    for col in range(columns):
        entries = [take(memory[row, col], element, cache + ctl[row, 5] * n, n) for row in passing]
        for row, entry in zip(passing, entries, strict=True):
            put(memory[row - 1, col], element, cache + ctl[row - 1, 6] * n, entry)
            links[0, row, col] += words


def hand_over(
    source_memory: Bytes, target_memory: Bytes, element: str, links: I64, pieces: I64, words: I64, a: I64
) -> None:
    """Copy pieces of vectors from the PEs of one region to the PEs of another.

    The words travel along rows first, then along columns. This reference is used to test the
    compiled kernel of the same name.

    Args:
        source_memory, target_memory: SRAM of the two regions. Only the second is changed.
        element: Element type.
        links: Number of words that left each PE of the mesh, ``[direction, row, col]``, incremented
            in place.
        pieces: int64 ``[n, 5]``: sending row, receiving row, first element in the source tile,
            first element in the target tile, number of elements.
        words: int64 ``[n]``: number of words per piece on the links.
        a: Operands of the kernel `wse_kernels.communication.copies.hand_over`.
    """
    vectors, source, target, width, source_col, target_col, columns, target_width = a[[0, 3, 4, 5, 6, 7, 8, 9]]
    for (row, end, first, place, n), on_wire in zip(pieces.tolist(), words.tolist(), strict=True):
        for c in range(end % a[14], columns, a[14]):
            for vector in range(vectors):
                piece = take(source_memory[row, source_col + c], element, source + vector * width + first, n)
                put(target_memory[end, target_col + c], element, target + vector * target_width + place, piece)
            at_row, at_col = a[10] + row, a[11] + source_col + c
            end_row, end_col = a[12] + end, a[13] + target_col + c
            while at_col != end_col:
                links[1 if end_col > at_col else 3, at_row, at_col] += on_wire
                at_col += 1 if end_col > at_col else -1
            while at_row != end_row:
                links[2 if end_row > at_row else 0, at_row, at_col] += on_wire
                at_row += 1 if end_row > at_row else -1


def _carry(line: Bytes, element: str, messages: I32, a: I64, onward: I64, backward: I64) -> None:
    """Execute messages between the PEs of one row or column, and count the words that they send.

    Args:
        line: SRAM of the PEs, ``[PE, bytes]``, changed in place.
        element: Element type.
        messages: int32 ``[m, 5]``: source PE, target PE, arrival code, first element, number of
            elements. The arrival code says what the target does with the elements, for example add
            them.
        a: Operands of the calling kernel. Operands 3 and 4 are the source and target addresses.
        onward, backward: Number of words that leave each PE towards higher and towards lower
            indices. Both are incremented in place.
    """
    for start, end, arrival, place, n in messages.tolist():
        source, target = a[3] + place, a[4] + place
        sent_bytes = take(line[start], element, source, n)
        at, words = start, -(-len(sent_bytes) // WORD_BYTES)
        while at != end and arrival != COPY:
            (onward if end > at else backward)[at] += words
            at += 1 if end > at else -1
        for pe in range(min(start, end), max(start, end) + 1) if arrival == MULTICAST else [end]:
            if arrival != DROP:
                stored_bytes = take(line[pe], element, target, n)
                put(line[pe], element, target, _combine(stored_bytes, sent_bytes, element, arrival))


def _combine(stored_bytes: Bytes, sent_bytes: Bytes, element: str, arrival: int) -> Bytes:
    """Return the bytes that a PE stores after a message has arrived.

    Args:
        stored_bytes: Bytes that the PE stores before the message.
        sent_bytes: Bytes of the message.
        element: Element type.
        arrival: Arrival code: 1 adds, 2 keeps the maximum, 3 keeps the better (value, index) pair,
            and any other code replaces the stored bytes.
    """
    old, new = widen(stored_bytes, element), widen(sent_bytes, element)
    if arrival == 1:
        return narrow(old + new, element)
    if arrival == 2:
        return narrow(np.where(new > old, new, old), element)
    if arrival == 3:
        (old_value, old_index), (new_value, new_index) = old.reshape(-1, 2).T, new.reshape(-1, 2).T
        wins = (new_value > old_value) | ((new_value == old_value) & (new_index < old_index))
        return narrow(np.where(wins[:, None], new.reshape(-1, 2), old.reshape(-1, 2)), element)
    return sent_bytes
