"""A trace's file on disk: ``NAME.partial`` while it grows, and ``NAME`` when it is complete.

HDF5 cannot handle a full disk: a failed write leaves unwritten metadata in memory, and closing the
file then crashes the interpreter. Disk space is therefore reserved before HDF5 writes.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
from pathlib import Path

from wse_traces.errors import TraceError

_BUFFER_BYTES = 4 << 20  # maximum size of rows that are buffered in memory
_FLUSH_S = 1.0  # minimum time between flushes
_FLUSH_FRACTION = 0.01  # maximum fraction of the run that flushing takes, and that a kill can lose
_FIRST_FLUSHES, _FIRST_FLUSH_S = 3, 0.125  # the first flushes come sooner, at intervals that double


class FlushTimer:
    """Timer that decides when buffered rows must be flushed to the file.

    The pause between two flushes depends on how long the last flush took and on how long the run
    has lasted. The first flushes follow one another quickly, so that a run that is killed early
    loses little.
    """

    def __init__(self) -> None:
        self._started = self._flushed = time.monotonic()
        self._took_s, self._flushes = 0.0, 0

    def is_due(self, waiting_bytes: int) -> bool:
        """Return whether the buffered rows must be flushed now.

        A flush is due if enough bytes are buffered, or if enough time has passed since the last
        flush.

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


if sys.platform != "win32":
    import fcntl

_ROOM_STEP_BYTES = 1 << 20
_EOF_OFFSET = 28  # offset of the end-of-file address in a superblock of version 3
REMEDY = "give another path with --trace, or --trace none"


def partial_path(target: Path) -> Path:
    """Return the path of the unfinished file: ``wse-run.h5.partial`` for ``wse-run.h5``."""
    return target.with_name(target.name + ".partial")


def _lock(descriptor: int, target: Path) -> None:
    """Acquire the advisory lock of a file. It is released when the process ends.

    Raises:
        TraceError: Another process has the lock.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(f"{target}: another run is writing this trace; {REMEDY}") from None


class PartialFile:
    """A file that one process writes under a temporary name and finally renames to its target.

    Attributes:
        target: Name of the complete file.
        path: Name of the unfinished file.
    """

    def __init__(self, target: Path, content: bytes) -> None:
        """Create the unfinished file with some content, either completely or not at all.

        Args:
            target: Name of the complete file.
            content: Initial bytes of the file.

        Raises:
            TraceError: The path cannot be written, or another run writes there.
        """
        self.target, self.path = target, partial_path(target)
        if target.exists() and not target.is_file():
            raise TraceError(f"{target}: not a regular file, a trace cannot replace it; {REMEDY}")
        fresh = target.with_name(f"{self.path.name}.{os.getpid()}")
        self._fd = -1
        try:
            with contextlib.ExitStack() as stack:
                if self.path.is_file():
                    old = os.open(self.path, os.O_RDWR)
                    stack.callback(os.close, old)
                    _lock(old, target)
                self._fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                _lock(self._fd, target)
                with os.fdopen(os.dup(self._fd), "wb") as file:
                    file.write(content)
                self._reserved_bytes = len(content)
                fresh.replace(self.path)
        except OSError as error:
            if self._fd >= 0:
                self.release()
                fresh.unlink(missing_ok=True)
            if isinstance(error, TraceError):
                raise
            raise TraceError(f"{target}: cannot write a trace here: {error.strerror or error}; {REMEDY}") from error

    def reserve(self, end_bytes: int) -> None:
        """Reserve enough disk space for the file to grow to ``end_bytes`` bytes.

        Raises:
            TraceError: The disk is full.
        """
        lacking = end_bytes - self._reserved_bytes
        if lacking <= 0 or not hasattr(os, "posix_fallocate"):
            return
        for room_bytes in (max(lacking, _ROOM_STEP_BYTES), lacking):
            try:
                os.posix_fallocate(self._fd, self._reserved_bytes, room_bytes)
            except OSError as error:
                failure = error
            else:
                self._reserved_bytes += room_bytes
                return
        raise TraceError(
            f"{self.path}: cannot grow the trace beyond {self._reserved_bytes:,} B: {failure.strerror}; "
            f"what was flushed before is readable; free some space or {REMEDY}"
        ) from failure

    def trim(self) -> None:
        """Release unused reserved disk space. HDF5 must already have closed the file."""
        (end,) = struct.unpack("<Q", os.pread(self._fd, 8, _EOF_OFFSET))
        if 0 < end < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, end)

    def publish(self) -> None:
        """Flush the file to disk and rename it to its target.

        Raises:
            TraceError: The file cannot be flushed or renamed, or another run has replaced it.
        """
        try:
            if not os.path.samestat(self.path.stat(), os.fstat(self._fd)):
                raise TraceError(f"{self.path}: replaced by another run while this one wrote it; {REMEDY}")
            os.fsync(self._fd)
            self.path.replace(self.target)
        except OSError as error:
            if isinstance(error, TraceError):
                raise
            raise TraceError(
                f"{self.target}: cannot complete the trace: {error.strerror or error}; it is in {self.path}"
            ) from error

    def release(self) -> None:
        """Close the file and release its lock, without renaming it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
