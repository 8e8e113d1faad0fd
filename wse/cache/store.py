"""Store: the files of the cache on disk, one per entry.

The first line of a file has the format's version, the key and a checksum of the rest, which is
JSON. A file that does not agree with its first line is treated as missing, and replaced by the next
result. Files are written under a temporary name and then renamed, so several processes can share
the folder. Errors of the file system never fail a command: the result is then just not kept.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER_VARIABLE: Final = "WSE_CACHE"
"""Environment variable with the folder of the cache, or `DISABLED`. Worker processes inherit it."""
DISABLED: Final = "none"
FORMAT: Final = "wse-cache 1"
LIMIT_BYTES: Final = 64 * 2**20
"""Size of all entries above which the entries not used for longest are deleted."""
KEPT_FRACTION: Final = 0.75
"""Fraction of the limit that remains after entries are deleted, so that this happens rarely."""
ENTRY_LIMIT_BYTES: Final = 8 * 2**20
LEFT_OVER_S: Final = 3600.0
"""Age in seconds from which a temporary file belongs to a process that was killed."""

CLEANING_DIGIT: Final = "0"
"""Last digit of the keys whose writing also limits the size: one in 16, as it lists the folder."""

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
"""Flags that create a file and never follow a link, which matters in a folder that users share."""

_ENTRY: Final = re.compile(r"[0-9a-f]{64}\.entry")
_TEMPORARY: Final = re.compile(r"[0-9a-f]{64}\.\d+-\d+\.tmp")


class StoredFile(NamedTuple):
    """A file of the cache, with its size in bytes and the time of its last use in seconds."""

    path: Path
    bytes: int
    used_s: float


def cache_folder() -> Path | None:
    """Return the folder of the cache, or None if the cache is disabled.

    It is the value of the environment variable `FOLDER_VARIABLE`. The default is the folder ``wse``
    in ``$XDG_CACHE_HOME`` or ``~/.cache``. The folder may not exist yet.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return None if folder == DISABLED else Path(folder)
    parent = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(parent) if parent else Path.home() / ".cache") / "wse"
    except RuntimeError:  # the user has no home folder
        return None


@contextmanager
def without_cache() -> Iterator[None]:
    """Disable the cache inside the context, also for worker processes that are started there."""
    folder = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = DISABLED
    try:
        yield
    finally:
        if folder is None:
            del os.environ[FOLDER_VARIABLE]
        else:
            os.environ[FOLDER_VARIABLE] = folder


def read_entry(key: str) -> Any:
    """Return the values of an entry, or None if there is no undamaged entry with this key.

    Reading an entry marks it as used, so that it is deleted later than other entries.

    Args:
        key: Key of the entry, from `wse.cache.content_key`.

    Returns:
        Plain values as JSON represents them. Callers must check their types, because any program that
        the user runs can write the file.
    """
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / f"{key}.entry"
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            data = stream.read(ENTRY_LIMIT_BYTES + 1)
        first_line, _, body = data.partition(b"\n")
        if len(data) > ENTRY_LIMIT_BYTES or first_line.decode() != _first_line(key, body):
            return None
        values = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    with suppress(OSError):
        os.utime(path)
    return values


def write_entry(key: str, values: Any) -> None:
    """Store plain values as an entry, and sometimes delete old entries if the cache is too large.

    An entry that exceeds `ENTRY_LIMIT_BYTES` is not stored.

    Args:
        key: Key of the entry.
        values: Values that JSON can represent.
    """
    folder = cache_folder()
    if folder is None:
        return
    body = json.dumps(values, separators=(",", ":")).encode()
    data = f"{_first_line(key, body)}\n".encode() + body
    if len(data) > ENTRY_LIMIT_BYTES:
        return
    temporary = folder / f"{key}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, NEW_FILE, 0o600), "wb") as stream:
            stream.write(data)
        temporary.replace(folder / f"{key}.entry")
    except OSError:  # no space, or a folder that cannot be written
        with suppress(OSError):
            temporary.unlink()
        return
    if key.endswith(CLEANING_DIGIT):
        _delete_old_entries(folder)


def stored_files(folder: Path) -> list[StoredFile]:
    """Return the entries and temporary files in the folder of a cache; other files are left out."""
    files = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _ENTRY.fullmatch(entry.name) or _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):  # another process has deleted it
                    status = entry.stat(follow_symlinks=False)
                    files.append(StoredFile(Path(entry.path), status.st_size, status.st_mtime))
    return files


def clear(folder: Path) -> int:
    """Delete all entries and temporary files in the folder of a cache; return their number.

    Raises:
        OSError: A file cannot be deleted.
    """
    files = stored_files(folder)
    for file in files:
        file.path.unlink(missing_ok=True)
    return len(files)


def _first_line(key: str, body: bytes) -> str:
    """Return the first line of a cache file: format, key, and checksum of the following lines."""
    return f"{FORMAT} {key} {sha256(body).hexdigest()}"


def _delete_old_entries(folder: Path) -> None:
    """Delete left-over temporary files and, if the cache is too large, its oldest entries.

    The oldest entries are those that have not been used for the longest time.
    """
    files = stored_files(folder)
    now_s, total_bytes = time.time(), sum(file.bytes for file in files)
    max_bytes = total_bytes if total_bytes <= LIMIT_BYTES else KEPT_FRACTION * LIMIT_BYTES
    for file in sorted(files, key=lambda file: file.used_s):
        is_left_over = file.path.suffix == ".tmp" and now_s - file.used_s > LEFT_OVER_S
        if is_left_over or (total_bytes > max_bytes and file.path.suffix == ".entry"):
            with suppress(OSError):
                file.path.unlink()
            total_bytes -= file.bytes
