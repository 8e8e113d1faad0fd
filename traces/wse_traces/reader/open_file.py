"""Open a trace's HDF5 file, whether its writer has closed it, is still running or was killed.

The file of a writer that is running or was killed is marked as being written. HDF5 reads such files
only in a mode that waits forever for damaged metadata to become valid. The file is therefore read
through a view in which this flag is cleared. This is safe because the metadata on disk is
consistent at every moment, and any damage is reported at once.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py

from wse_traces.errors import TraceError
from wse_traces.reader.column import reason_of
from wse_traces.writer.partial import partial_path

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPERBLOCK_BYTES = 48  # of version 3; the last 4 bytes are the checksum of the others
_FLAGS_AT, _END_AT, _CHECKSUM_AT = 11, 28, 44
_MASK = 0xFFFFFFFF


@contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """Open a trace's HDF5 file for reading, even if its writer is running or was killed.

    Raises:
        TraceError: There is no file at the path, or it cannot be read, is not HDF5 or is damaged.
    """
    if not path.is_file():
        unfinished = partial_path(path) if path.name else path
        hint = "; give a file that wse run --trace wrote"
        if unfinished.is_file():
            hint = f"; {unfinished} is the trace of a run that is in progress or was stopped"
        raise TraceError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}{hint}")
    with ExitStack() as stack:
        try:
            with path.open("rb") as opened:
                start = opened.read(SUPERBLOCK_BYTES)
            if not start.startswith(SIGNATURE):
                reason = "not an HDF5 file" if start else "empty"
                raise TraceError(f"{path}: {reason}, so not a trace; give a file that wse run --trace wrote")
            is_closed = not _is_unfinished(start)
            source = h5py.File(path, "r", locking=False) if is_closed else _open_unfinished(path, start)
            file = stack.enter_context(source)
        except TraceError:
            raise
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.strerror:
                message = f"{path}: cannot be opened: {error.strerror}; check the path and its permissions"
            else:
                message = f"{path}: {_fault(path, start, error)}; make the trace again"
            raise TraceError(message) from error
        yield file


def _fault(path: Path, start: bytes, error: Exception) -> str:
    """Return the reason why HDF5 cannot open a file, such as the number of missing bytes.

    Args:
        path: Path of the file.
        start: First bytes of the file.
        error: Error that HDF5 raised.
    """
    size_bytes = path.stat().st_size
    if len(start) < SUPERBLOCK_BYTES or start[8] != 3 or not _is_first_block_whole(start):
        return f"truncated or damaged: the first {SUPERBLOCK_BYTES} of its {size_bytes:,} bytes are invalid"
    end_bytes = struct.unpack_from("<Q", start, _END_AT)[0]
    if size_bytes < end_bytes:
        return f"truncated: it has {size_bytes:,} of its {end_bytes:,} bytes"
    return f"damaged: {reason_of(error)}"


def _is_first_block_whole(start: bytes) -> bool:
    """Return whether the checksum of an HDF5 file's first block (the superblock) is correct."""
    return bool(struct.unpack_from("<I", start, _CHECKSUM_AT)[0] == checksum(start[:_CHECKSUM_AT]))


def checksum(data: bytes) -> int:
    """Return the checksum that HDF5 uses for its metadata: Bob Jenkins' hash lookup3.

    Source: burtleburtle.net/bob/c/lookup3.c, hashlittle with initval 0.

    >>> f"{checksum(b'Four score and seven years ago'):08x}"
    '17770551'
    """
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    blocks = max(0, (len(data) - 1) // 12)
    padded = data.ljust(12 * (blocks + 1), b"\0")
    words: tuple[int, ...] = struct.unpack(f"<{3 * (blocks + 1)}I", padded)
    for i in range(0, 3 * blocks, 3):
        a, b, c = (a + words[i]) & _MASK, (b + words[i + 1]) & _MASK, (c + words[i + 2]) & _MASK
        for bits in (4, 6, 8, 16, 19, 4):
            a = (a - c) & _MASK ^ _rotate(c, bits)
            c = (c + b) & _MASK
            a, b, c = b, c, a
    if not data:
        return c
    a, b, c = (x + w & _MASK for x, w in zip((a, b, c), words[-3:], strict=True))
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotate(b, bits) & _MASK
        a, b, c = b, c, a
    return b


def _rotate(word: int, bits: int) -> int:
    """Return a 32-bit word rotated to the left."""
    return (word << bits | word >> (32 - bits)) & _MASK


class _ReleasedFile(io.FileIO):
    """A file whose first bytes are replaced by the attribute ``start`` when it is read.

    The replaced bytes no longer contain the flag that tells HDF5 that another process is writing
    the file. HDF5 can therefore open it; the file itself is not changed.
    """

    start = b""

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer, with the replaced bytes at the start of the file."""
        at = self.tell()
        count = int(super().readinto(buffer) or 0)
        replacement = self.start[at : at + count]
        memoryview(buffer).cast("B")[: len(replacement)] = replacement
        return count


def _is_unfinished(start: bytes) -> bool:
    """Return whether the first bytes of a file indicate that its writer has not closed it."""
    return len(start) == SUPERBLOCK_BYTES and start[8] == 3 and start[_FLAGS_AT] != 0


@contextmanager
def _open_unfinished(path: Path, start: bytes) -> Iterator[Any]:
    """Open a file that its writer has not closed, as if it had been closed.

    Args:
        path: Path of the file.
        start: First bytes of the file.

    Raises:
        OSError: The first bytes are damaged.
    """
    if not _is_first_block_whole(start):
        raise OSError("the first block has a wrong checksum")
    patched = bytearray(start[:_CHECKSUM_AT])
    patched[_FLAGS_AT] = 0
    struct.pack_into("<Q", patched, _END_AT, path.stat().st_size)
    with _ReleasedFile(path) as view:
        view.start = bytes(patched) + struct.pack("<I", checksum(bytes(patched)))
        with h5py.File(view, "r") as file:
            yield file
