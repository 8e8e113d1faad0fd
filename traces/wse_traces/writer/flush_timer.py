"""Times at which the buffered rows of a trace are flushed to its file."""

from __future__ import annotations

import time

_BUFFER_BYTES = 4 << 20  # maximum size of rows that are buffered in memory
_FLUSH_S = 1.0  # minimum time between flushes
_FLUSH_FRACTION = 0.01  # maximum fraction of the run that flushing takes, and that a kill can lose
_FIRST_FLUSHES, _FIRST_FLUSH_S = 3, 0.125  # the first flushes come sooner, at intervals that double


class FlushTimer:
    """A record of the previous flushes, which determines when the next one is due."""

    def __init__(self) -> None:
        self._started = self._flushed = time.monotonic()
        self._took_s, self._flushes = 0.0, 0

    def is_due(self, waiting_bytes: int) -> bool:
        """Return whether enough rows are buffered, or enough time has passed since the last flush.

        Args:
            waiting_bytes: Bytes of the buffered rows.
        """
        now_s = time.monotonic()
        pause_s = max(_FLUSH_S, self._took_s / _FLUSH_FRACTION, _FLUSH_FRACTION * (now_s - self._started))
        if self._flushes < _FIRST_FLUSHES:  # a kill shortly after the start should lose little
            pause_s = _FIRST_FLUSH_S * 2**self._flushes
        return waiting_bytes >= _BUFFER_BYTES or now_s - self._flushed >= pause_s

    def record_flush(self, began_s: float) -> None:
        """Record that a flush has ended.

        Args:
            began_s: When it began, by the monotonic clock.
        """
        self._flushes += 1
        self._flushed = time.monotonic()
        self._took_s = self._flushed - began_s
