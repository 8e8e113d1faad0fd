"""The key-value cache spread over mesh rows and kept balanced by shifting.

Occupancies differ by at most one, the fuller rows first. A prefill chunk gives every row its share at once. In decode
the new entry is stored at the last row, and the rows below the first of the emptier ones pass their oldest entry one
row up, all at the same time: one hop, one token's entry. While rows are still empty the first of them stores the new
entry, which every row has after the all-reduce. Source: He et al., WaferLLM, OSDI 2025, section on the KV cache.

Several new tokens of a user at once, some of which may be taken back, go to the rows one after another, the first to
the first of the emptier ones: whatever number of the last ones is taken back, the rows stay balanced without a shift.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.cuts.split import balanced_counts, ceil_div

HEADER_WORDS = 8
POSITION, TOKENS, APPEND_FROM, APPEND_COUNT, APPEND_SLOT, PASSED_SLOT, RECEIVED_SLOT, OLDEST = range(8)


class CacheBalance:
    """The cache counters of every row.

    ``control`` is what kernels read, int32 ``[rows, 8 + capacity]``.

    Words: 0 position of the row's first token, 1 tokens on the row, 2 first token to append, 3 tokens to append,
    4 slot of the first, 5 slot passed up or -1, 6 slot received into or -1, 7 slot of the oldest entry, 8 + slot:
    position held, -1 when empty.
    """

    def __init__(self, rows: int, context: int) -> None:
        self.rows = rows
        self.capacity = ceil_div(context, rows)
        self._occupied = np.zeros(rows, np.int32)
        self.control: npt.NDArray[np.int32] = np.zeros((rows, HEADER_WORDS + self.capacity), np.int32)
        self.control[:, HEADER_WORDS:] = -1
        self._oldest = self.control[:, OLDEST]

    @property
    def length(self) -> int:
        """Tokens held."""
        return int(self._occupied.sum())

    @property
    def counters(self) -> dict[str, npt.NDArray[np.int32]]:
        """Return the arrays of the whole state; writing to them restores another state."""
        return {"control": self.control, "occupied": self._occupied}

    @staticmethod
    def host_bytes(rows: int, context: int) -> int:
        """Return the bytes of the counters of a number of rows."""
        return 4 * rows * (HEADER_WORDS + ceil_div(context, rows) + 1)

    @property
    def slots(self) -> int:
        """Slots that the fullest row uses."""
        return int(self._occupied.max())

    @staticmethod
    def slots_after(length: int, rows: int) -> int:
        """Return the slots in use on the fullest row for ``length`` tokens."""
        return ceil_div(length, rows)

    @staticmethod
    def passing_rows(length: int, rows: int) -> int:
        """Return the number of rows, from the last one, that pass an entry on when a token joins ``length`` others."""
        return rows - 1 - length % rows if length >= rows else 0

    def append_chunk(self, tokens: int, *, replicated: bool) -> None:
        """Add ``tokens`` new tokens, each row storing its part.

        ``replicated``: every row works on all the tokens (activations replicated down the rows); else each row works
        on its own share.
        """
        length = self.length
        share = balanced_counts(length + tokens, self.rows) - self._occupied
        start = np.concatenate([[0], np.cumsum(share)[:-1]]).astype(np.int32)
        control = self.control
        control[:, POSITION] = length if replicated else length + start
        control[:, TOKENS] = tokens if replicated else share
        control[:, APPEND_FROM] = start if replicated else 0
        control[:, APPEND_COUNT] = share
        control[:, APPEND_SLOT] = (self._oldest + self._occupied) % self.capacity
        control[:, PASSED_SLOT : RECEIVED_SLOT + 1] = -1
        row = np.repeat(np.arange(self.rows), share)
        nth = np.arange(tokens) - start[row]
        control[row, HEADER_WORDS + (control[row, APPEND_SLOT] + nth) % self.capacity] = length + np.arange(tokens)
        self._occupied += share

    def append_each(self, tokens: int) -> None:
        """Add ``tokens`` new tokens, stored one per row, round-robin.

        A row stores every one that is a multiple of the rows behind its first (`wse_kernels.attention.kv_append`).
        """
        control, length = self.control, self.length
        first = (np.arange(self.rows) - length) % self.rows
        counts = balanced_counts(length + tokens, self.rows) - self._occupied
        control[:, POSITION] = length
        control[:, TOKENS] = tokens
        control[:, APPEND_FROM] = first
        control[:, APPEND_COUNT] = counts
        control[:, APPEND_SLOT] = (self._oldest + self._occupied) % self.capacity
        control[:, PASSED_SLOT : RECEIVED_SLOT + 1] = -1
        nth = np.arange(tokens)
        row = (length + nth) % self.rows
        slot = (control[row, APPEND_SLOT] + nth // self.rows) % self.capacity
        control[row, HEADER_WORDS + slot] = length + nth
        self._occupied += counts

    def take_back(self, tokens: int) -> None:
        """Remove the last ``tokens`` of those that ``append_each`` added last."""
        length = self.length - tokens
        position = np.arange(length, self.length)
        row = position % self.rows
        held = self.control[row, HEADER_WORDS:]
        slot = (held == position[:, None]).argmax(axis=1)
        self.control[row, HEADER_WORDS + slot] = -1
        self._occupied[:] = balanced_counts(length, self.rows)

    def append_one(self) -> None:
        """Add one new token on the last row, after the shift that makes room for it."""
        control, length = self.control, self.length
        boundary = length % self.rows
        passing = np.arange(self.rows - self.passing_rows(length, self.rows), self.rows)
        entry = self.rows - 1 if len(passing) else boundary
        control[:, POSITION] = length
        control[:, TOKENS] = 1
        control[:, APPEND_FROM : APPEND_COUNT + 1] = 0
        control[:, PASSED_SLOT : RECEIVED_SLOT + 1] = -1
        free = (self._oldest + self._occupied) % self.capacity
        control[passing, PASSED_SLOT] = self._oldest[passing]
        passed = control[passing, HEADER_WORDS + self._oldest[passing]]
        control[passing, HEADER_WORDS + self._oldest[passing]] = -1
        control[passing - 1, RECEIVED_SLOT] = free[passing - 1]
        control[passing - 1, HEADER_WORDS + free[passing - 1]] = passed
        self._oldest[passing] = (self._oldest[passing] + 1) % self.capacity
        control[entry, APPEND_COUNT] = 1
        control[entry, APPEND_SLOT] = free[entry]
        control[entry, HEADER_WORDS + free[entry]] = length
        self._occupied[boundary] += 1
