"""Tests of the KV cache over mesh rows, which is replayed with positions in place of keys and values."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wse_mappings.cuts.cache_balance import (
    APPEND_COUNT,
    APPEND_FROM,
    APPEND_SLOT,
    HEADER_WORDS,
    OLDEST,
    PASSED_SLOT,
    POSITION,
    RECEIVED_SLOT,
    TOKENS,
    CacheBalance,
)
from wse_mappings.rounding import ceil_div


class Rows:
    """Slots of every row, filled as the kernels do, given only the counters in ``control``."""

    def __init__(self, cache: CacheBalance) -> None:
        self.cache = cache
        self.slots: list[list[int]] = [[-1] * cache.capacity for _ in range(cache.rows)]

    def shift(self) -> int:
        """Move all entries that rows send to the row above, at the same time, and return their number."""
        control = self.cache.control
        passing = [row for row in range(self.cache.rows) if control[row, PASSED_SLOT] >= 0]
        assert [row + 1 for row in np.flatnonzero(control[:, RECEIVED_SLOT] >= 0)] == passing
        entries = []
        for row in passing:
            slot = control[row, PASSED_SLOT]
            entries.append(self.slots[row][slot])
            self.slots[row][slot] = -1
        for row, entry in zip(passing, entries, strict=True):
            slot = control[row - 1, RECEIVED_SLOT]
            assert self.slots[row - 1][slot] == -1, "an entry in use is overwritten"
            self.slots[row - 1][slot] = entry
        return len(passing)

    def append(self, stride: int = 1) -> None:
        """Store the new entries of every row; consecutive entries of a row are ``stride`` positions apart."""
        for row, words in enumerate(self.cache.control):
            for i in range(words[APPEND_COUNT]):
                assert words[APPEND_FROM] + i * stride < words[TOKENS]
                slot = (words[APPEND_SLOT] + i) % self.cache.capacity
                assert self.slots[row][slot] == -1, "an entry in use is overwritten"
                self.slots[row][slot] = words[POSITION] + words[APPEND_FROM] + i * stride

    def append_chunk(self, tokens: int, *, replicated: bool) -> None:
        """Append a chunk. Every row processes its part of the tokens or, if replicated, all tokens."""
        cached = self.cache.length
        self.cache.append_chunk(tokens, replicated=replicated)
        columns = [POSITION, TOKENS, APPEND_FROM, APPEND_COUNT]
        rows = self.cache.control[:, columns].tolist()
        stored = [begin + first + i for begin, _, first, count in rows for i in range(count)]
        assert stored == list(range(cached, cached + tokens))
        for begin, processed, first, count in rows:
            assert (begin, processed) == (cached, tokens) if replicated else (first, processed) == (0, count)
        assert self.shift() == 0
        self.append()

    def append_verified(self, tokens: int) -> None:
        """Append the tokens of a verification pass, which are distributed round-robin over the rows."""
        self.cache.append_each(tokens)
        assert self.shift() == 0
        self.append(self.cache.rows)

    def remove_last(self, tokens: int) -> None:
        """Remove the last ``tokens`` positions."""
        self.cache.remove_last(tokens)
        self.slots = [[entry if entry < self.cache.length else -1 for entry in row] for row in self.slots]

    def append_token(self) -> int:
        """Append one token, and return the number of entries that moved to the row above."""
        self.cache.append_one()
        assert (self.cache.control[:, POSITION] == self.cache.length - 1).all()
        passed = self.shift()
        self.append()
        return passed

    def in_order(self) -> list[list[int]]:
        """Return the entries of every row, starting with the oldest.

        All slots after the first empty one must be empty, too.
        """
        found = []
        for row, slots in enumerate(self.slots):
            oldest = int(self.cache.control[row, OLDEST])
            entries = slots[oldest:] + slots[:oldest]
            row_entries = [entry for entry in entries if entry >= 0]
            assert entries[: len(row_entries)] == row_entries, "a gap between entries"
            found.append(row_entries)
        return found


def check_balance(rows: Rows, length: int) -> None:
    """Check that every position is stored once, and that rows differ by at most one entry."""
    cache, entries_by_row = rows.cache, rows.in_order()
    assert sorted(entry for row in entries_by_row for entry in row) == list(range(length)), (
        "every position exactly once"
    )
    counts = [len(row) for row in entries_by_row]
    assert counts == sorted(counts, reverse=True), "the fuller rows come first"
    assert counts[0] - counts[-1] <= 1
    assert cache.slots == counts[0] == CacheBalance.slots_after(length, cache.rows) <= cache.capacity
    assert cache.length == length
    np.testing.assert_array_equal(cache.control[:, HEADER_WORDS:], rows.slots)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 13),
    chunks=st.lists(st.integers(1, 20), max_size=5),
    decoded=st.integers(0, 40),
    replicated=st.booleans(),
)
def test_rows_stay_balanced_up_to_the_last_slot(
    rows: int, chunks: list[int], decoded: int, *, replicated: bool
) -> None:
    """Every chunk is distributed over all rows.

    Positions ascend within every row, and over all rows if there is only one chunk.
    """
    context = max(1, sum(chunks) + decoded)
    replayed = Rows(CacheBalance(rows, context))
    length = 0
    for tokens in chunks:
        replayed.append_chunk(tokens, replicated=replicated)
        length += tokens
        check_balance(replayed, length)
        assert all(row == sorted(row) for row in replayed.in_order())
    while length < context:
        assert replayed.append_token() == CacheBalance.passing_rows(length, rows)
        length += 1
        check_balance(replayed, length)
        if len(chunks) <= 1:
            assert [entry for row in replayed.in_order() for entry in row] == list(range(length))
    assert replayed.cache.slots == replayed.cache.capacity == ceil_div(context, rows)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9),
    prompt=st.integers(0, 20),
    passes=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=6),
)
def test_rows_stay_balanced_after_tokens_are_taken_back(
    rows: int, prompt: int, passes: list[tuple[int, int, int]]
) -> None:
    """Each verification pass adds several tokens, of which some are removed.

    Single tokens may be decoded after a pass.
    """
    replayed = Rows(CacheBalance(rows, prompt + sum(tokens + decoded for tokens, _, decoded in passes)))
    length = prompt
    if prompt:
        replayed.append_chunk(prompt, replicated=True)
    for tokens, refused, decoded in passes:
        replayed.append_verified(tokens)
        check_balance(replayed, length + tokens)
        replayed.remove_last(min(refused, tokens))
        length += tokens - min(refused, tokens)
        check_balance(replayed, length)
        for _ in range(decoded):
            replayed.append_token()
            length += 1
            check_balance(replayed, length)
