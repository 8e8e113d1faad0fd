"""Folder of compiled kernels, shared by all processes, environments and machines with one home.

- Each kernel is a file. Its name contains a digest of everything that the code depends on,
  including sources and versions. Outdated files are therefore never read, and no file changes once
  it is written.
- A file appears atomically, so processes can compile at the same time. It begins with a digest of
  its content, so a file that a crash cut short is not used.
- The content is executed. A folder that belongs to another user, or that all users may write to, is
  therefore ignored.
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
    """Return the folder for cached kernels, or None if the user has no home directory.

    It is NUMBA_CACHE_DIR if that is set, else ``wse`` in XDG_CACHE_HOME or in ``~/.cache``.
    """
    named_folder, cache_folder = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if named_folder:
        return Path(named_folder)
    try:
        return (Path(cache_folder) if cache_folder else Path.home() / ".cache") / "wse"
    except RuntimeError:
        return None


class KernelFiles:
    """Cache of compiled kernels: a folder with one file per kernel.

    The folder is created when the first file is written. If no folder is available, kernels are
    compiled in each process and not stored.

    Attributes:
        trouble: Why kernels cannot be stored and what to do about it. Empty if they can be stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.trouble = "" if folder else _trouble("cache of kernels", "the user has no home")

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist or is incomplete."""
        try:
            if self.folder is None or _reason_to_distrust(self.folder):
                return None
            data = (self.folder / name).read_bytes()
        except OSError:
            return None
        digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        return content if sha256(content).digest() == digest else None

    def contains(self, name: str) -> bool:
        """Return whether the folder contains a file with this name, even an incomplete one."""
        return self.folder is not None and (self.folder / name).exists()

    def write(self, name: str, content: bytes) -> None:
        """Store a compiled kernel in the file ``name``, preceded by a digest of its content.

        If that fails, set `trouble` to the reason and store no more files.
        """
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
    """Return a message saying why compiled kernels cannot be stored and what to do about it.

    Args:
        place: The cache folder, or a description of it if there is no folder.
        reason: Why files cannot be stored there.
    """
    return (
        f"{place}: compiled kernels cannot be kept: {reason}; they are compiled anew at every start. "
        "Correct this, or set XDG_CACHE_HOME to another folder"
    )


def _write(target: Path, data: bytes) -> None:
    """Write a file atomically: it is either complete or absent.

    Raises:
        OSError: The file cannot be written.
    """
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
    """Return why cached code in a folder must not be executed; empty if the folder can be trusted.

    A folder is not trusted if it belongs to another user or if every user may write to it.

    Raises:
        OSError: The folder does not exist.
    """
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "it belongs to another user"
    if os.name == "posix" and status.st_mode & WRITABLE_BY_ALL:
        return "every user may write there"
    return ""
