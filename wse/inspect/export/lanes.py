"""Slices that overlap in time, laid on lanes on which none does."""

from __future__ import annotations

import heapq


class Lanes:
    """The lanes of one track. Slices come in order of their start; each gets the lowest lane that is free.

    >>> lanes = Lanes()
    >>> [lanes.place(*slice_) for slice_ in ((0, 10), (2, 5), (5, 7), (10, 11))]
    [0, 1, 1, 0]
    """

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # (end, lane), a heap
        self._free: list[int] = []  # a heap
        self._count = 0

    def place(self, start: int, end: int) -> int:
        """The lane of a slice from cycle ``start`` to before ``end``."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            lane, self._count = self._count, self._count + 1
        heapq.heappush(self._busy, (end, lane))
        return lane
