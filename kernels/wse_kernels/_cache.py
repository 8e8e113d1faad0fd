"""The folder of compiled kernels, which processes, environments and machines with one home share.

A kernel is a file of its own whose name is a digest of all that it depends on, sources and versions among them: what is
older than the sources is never looked for, and none is changed once it is written. A file appears whole, so that
processes which compile at the same time do each other no harm, and begins with the digest of what follows, so that one
that a crash cut short is compiled anew. Its content is run: a folder of another user, or one that all may write to, is
left alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

DIGEST_BYTES = 32
WRITABLE_BY_ALL = 0o002


def cache_home() -> Path | None:
    """Return the folder of NUMBA_CACHE_DIR, or ``wse`` in that of XDG_CACHE_HOME or in ``~/.cache``.

    None without a home.
    """
    named, caches = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "wse"
    except RuntimeError:
        return None


class KernelFiles:
    """Files of compiled kernels in ``folder``, which is made when the first is kept; None keeps nothing.

    Attributes:
        trouble: Why kernels cannot be kept, and what to do about it; empty while they can.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.trouble = "" if folder else _trouble("cache of kernels", "the user has no home")

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None where there is none, or not the whole of it."""
        try:
            if self.folder is None or _reason_to_distrust(self.folder):
                return None
            data = (self.folder / name).read_bytes()
        except OSError:
            return None
        digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        return content if sha256(content).digest() == digest else None

    def has(self, name: str) -> bool:
        """Return whether there is a file."""
        return self.folder is not None and (self.folder / name).exists()

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content``; where that cannot be, `trouble` says why, and nothing more is tried."""
        if self.folder is None or self.trouble:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            reason = _reason_to_distrust(self.folder)
            if not reason:
                _write(self.folder / name, sha256(content).digest() + content)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
        if reason:
            self.trouble = _trouble(str(self.folder), reason)


def _trouble(place: str, reason: str) -> str:
    return (
        f"{place}: compiled kernels cannot be kept: {reason}; they are compiled anew at every start: mend that, "
        "or name another folder in XDG_CACHE_HOME"
    )


def _write(target: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all. Raises OSError."""
    with NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
        path = Path(file.name)
        try:
            file.write(data)
            file.close()
            path.replace(target)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise


def _reason_to_distrust(folder: Path) -> str:
    """Return why files in a folder must not be executed; empty if it is the user's own. Raises OSError if missing."""
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "it belongs to another user"
    if os.name == "posix" and status.st_mode & WRITABLE_BY_ALL:
        return "every user may write there"
    return ""
