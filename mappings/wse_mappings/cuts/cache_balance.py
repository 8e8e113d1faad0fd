"""KV cache that is distributed across mesh rows and kept balanced by shifts.

The numbers of entries on any two rows differ by at most one. The rows with more entries come first.
Source: He et al., WaferLLM, OSDI 2025, section on the KV cache.

- In prefill, every row stores its part of the entries of each chunk.
- In decode, the last row stores the new entry. To restore the balance, each row below the first
  row with fewer entries passes its oldest entry to the row above. All rows do this concurrently, so
  it takes one hop. As long as some rows are empty, the first empty row stores the new entry
  instead, without any shift.
- In a verification pass, several new tokens of a user are added at once, and the last of them may
  be removed afterwards. The tokens are distributed round-robin, starting with the first row with
  fewer entries. The rows therefore stay balanced without a shift, no matter how many are removed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.cuts.split import balanced_counts
from wse_mappings.rounding import ceil_div

HEADER_WORDS = 8
POSITION, TOKENS, APPEND_FROM, APPEND_COUNT, APPEND_SLOT, PASSED_SLOT, RECEIVED_SLOT, OLDEST = range(8)


class CacheBalance:
    """Counters that record which KV-cache entries each row of PEs stores, in the form kernels read.

    A cache entry consists of the keys and values of one token and is stored in a slot of a row.
    ``control`` is int32 ``[rows, 8 + capacity]`` with these words per row:

    - 0, 1: position of the row's first token; number of tokens on the row
    - 2, 3, 4: first token to append; number of tokens to append; slot of the first appended token
    - 5, 6: slot whose entry is passed to the row above, or -1; slot that receives the entry of the
      row below, or -1
    - 7: slot of the oldest entry
    - 8 + slot: position of the token whose entry is in that slot, or -1 if the slot is empty
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
        """Number of tokens in the cache."""
        return int(self._occupied.sum())

    @property
    def counters(self) -> dict[str, npt.NDArray[np.int32]]:
        """Arrays that contain the complete state of the counters, keyed by name.

        Copy them to save the state, and write to them to restore a saved state.
        """
        return {"control": self.control, "occupied": self._occupied}

    @staticmethod
    def host_bytes(rows: int, context: int) -> int:
        """Return how many bytes of host memory the counters of a KV cache need.

        Args:
            rows: Number of rows of PEs that store the cache.
            context: Maximum number of tokens in the cache.
        """
        return 4 * rows * (HEADER_WORDS + ceil_div(context, rows) + 1)

    @property
    def slots(self) -> int:
        """Number of cache slots that are in use on the fullest row."""
        return int(self._occupied.max())

    @staticmethod
    def slots_after(length: int, rows: int) -> int:
        """Return how many cache slots are in use on the fullest row of PEs.

        Args:
            length: Number of tokens in the cache, one slot each.
            rows: Number of rows over which the tokens are divided evenly.
        """
        return ceil_div(length, rows)

    @staticmethod
    def shared_slots(prefix: int, length: int, rows: int) -> int:
        """Return how many cache slots per row of PEs users can share who have a common prefix.

        Only slots that the prefix fills on all rows are shared. At least one token is not shared.

        Args:
            prefix: Number of tokens at the start of every cache that are the same for all users.
            length: Number of tokens in each cache, at least 1.
            rows: Number of rows over which the tokens are divided evenly.
        """
        return min(prefix, length - 1) // rows

    @staticmethod
    def passing_rows(length: int, rows: int) -> int:
        """Return how many rows send a cache entry to the row above when a token is added.

        The last rows of the region send an entry, so that the very last row has a free slot for the
        new token.

        Args:
            length: Number of tokens in the cache before the token is added.
            rows: Number of rows of the region.
        """
        return rows - 1 - length % rows if length >= rows else 0

    def append_chunk(self, tokens: int, *, replicated: bool) -> None:
        """Update the counters for a prefill chunk, whose cache entries are distributed across rows.

        Args:
            tokens: Number of new tokens.
            replicated: Whether every row computes all tokens, because activations are replicated
                over rows. Otherwise each row computes only the tokens that it stores.
        """
        length = self.length
        row_counts = balanced_counts(length + tokens, self.rows) - self._occupied
        start = np.concatenate([[0], np.cumsum(row_counts)[:-1]]).astype(np.int32)
        control = self.control
        control[:, POSITION] = length if replicated else length + start
        control[:, TOKENS] = tokens if replicated else row_counts
        control[:, APPEND_FROM] = start if replicated else 0
        control[:, APPEND_COUNT] = row_counts
        control[:, APPEND_SLOT] = (self._oldest + self._occupied) % self.capacity
        control[:, PASSED_SLOT : RECEIVED_SLOT + 1] = -1
        row = np.repeat(np.arange(self.rows), row_counts)
        nth = np.arange(tokens) - start[row]
        control[row, HEADER_WORDS + (control[row, APPEND_SLOT] + nth) % self.capacity] = length + np.arange(tokens)
        self._occupied += row_counts

    def append_each(self, tokens: int) -> None:
        """Update the counters for a verification pass, which assigns tokens to rows round-robin.

        Every row computes all tokens, but stores the keys and values of only every ``rows``-th
        token. The kernel `wse_kernels.compute.attention.kv_cache.kv_append` reads these counters.
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

    def remove_last(self, tokens: int) -> None:
        """Remove the last tokens from the cache, for example rejected draft tokens.

        Args:
            tokens: Number of tokens, all of which must have been added by the last call to
                ``append_each``.
        """
        length = self.length - tokens
        position = np.arange(length, self.length)
        row = position % self.rows
        stored_positions = self.control[row, HEADER_WORDS:]
        slot = (stored_positions == position[:, None]).argmax(axis=1)
        self.control[row, HEADER_WORDS + slot] = -1
        self._occupied[:] = balanced_counts(length, self.rows)

    def append_one(self) -> None:
        """Update the counters for a decoded token, stored on the last row after a cache shift.

        In the shift, some rows pass their oldest entry to the row above, which frees a slot on the
        last row. As long as there are empty rows, the first empty row stores the token without a
        shift.
        """
        control, length = self.control, self.length
        boundary = length % self.rows
        passing = np.arange(self.rows - self.passing_rows(length, self.rows), self.rows)
        entry_row = self.rows - 1 if len(passing) else boundary
        control[:, POSITION] = length
        control[:, TOKENS] = 1
        control[:, APPEND_FROM : APPEND_COUNT + 1] = 0
        control[:, PASSED_SLOT : RECEIVED_SLOT + 1] = -1
        # Passing rows clear the slot of their oldest entry. The row above stores it in its next free slot.
        free_slots = (self._oldest + self._occupied) % self.capacity
        control[passing, PASSED_SLOT] = self._oldest[passing]
        passed_positions = control[passing, HEADER_WORDS + self._oldest[passing]]
        control[passing, HEADER_WORDS + self._oldest[passing]] = -1
        control[passing - 1, RECEIVED_SLOT] = free_slots[passing - 1]
        control[passing - 1, HEADER_WORDS + free_slots[passing - 1]] = passed_positions
        self._oldest[passing] = (self._oldest[passing] + 1) % self.capacity
        control[entry_row, APPEND_COUNT] = 1
        control[entry_row, APPEND_SLOT] = free_slots[entry_row]
        control[entry_row, HEADER_WORDS + free_slots[entry_row]] = length
        self._occupied[boundary] += 1
