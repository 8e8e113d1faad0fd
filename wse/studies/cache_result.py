"""CacheResult: the folder and the size of the cache on disk, as ``wse cache`` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from wse.cache.store import DISABLED, FOLDER_VARIABLE, LIMIT_BYTES, cache_folder, clear, stored_files
from wse.errors import BadInput
from wse.reports.number_text import in_bytes, plural
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, printable


class CacheResult(Result):
    """The result of ``wse cache``: the cache on disk, after deleting its entries if requested."""

    folder: Annotated[str, Doc("folder of the cache, which may not exist yet")]
    files: Annotated[int, Doc("number of files")]
    bytes: Annotated[int, Doc("size of all files", "B")]
    limit_bytes: Annotated[int, Doc("size above which the files not used for longest are deleted", "B")]
    deleted: Annotated[int | None, Doc("number of deleted files; with `clear`")] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return a table of the folder and its size.

        Args:
            detail: Not used.
            width: Not used.
        """
        rows = [
            ("folder", printable(self.folder)),
            ("size", f"{plural(self.files, 'file')}, {in_bytes(self.bytes)} of about {in_bytes(self.limit_bytes)}"),
        ]
        if self.deleted is not None:
            rows.append(("deleted", plural(self.deleted, "file")))
        return (pair_table(rows, "Cache"),)


def show_cache() -> CacheResult:
    """Return the folder and the size of the cache.

    Raises:
        BadInput: The cache is disabled.
    """
    return _result(_folder())


def clear_cache() -> CacheResult:
    """Delete all entries of the cache, and return the number of deleted files.

    Raises:
        BadInput: The cache is disabled, or a file cannot be deleted.
    """
    folder = _folder()
    try:
        deleted = clear(folder)
    except OSError as error:
        raise BadInput(
            f"{folder}: an entry cannot be deleted ({error}); check the permissions of the folder"
        ) from error
    return _result(folder, deleted)


def _folder() -> Path:
    """Return the folder of the cache.

    Raises:
        BadInput: The cache is disabled.
    """
    folder = cache_folder()
    if folder is None:
        raise BadInput(f"{FOLDER_VARIABLE}={DISABLED}: there is no cache; unset it, or set it to a folder")
    return folder


def _result(folder: Path, deleted: int | None = None) -> CacheResult:
    """Return the state of the cache.

    Args:
        folder: Folder of the cache.
        deleted: Number of files that were deleted before; None if none was to be deleted.
    """
    files = stored_files(folder)
    return CacheResult(
        folder=str(folder),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        limit_bytes=LIMIT_BYTES,
        deleted=deleted,
    )
