"""Estimates with the cache on disk: one made before is found by its key instead of computed.

This module imports the study only if the cache has no answer, because loading the compiler takes
longer than reading the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from wse.cache.content_key import NotCacheableError, content_key
from wse.cache.records import cached
from wse.cache.store import cache_folder
from wse.reports.progress import OnProgress, ignore
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult

CONTENT_LIMIT_BYTES: Final = 2**26
"""Size up to which the content of a file is hashed. Larger files, such as weights, are recognised by
their path, size and time of the last change.
"""
FILES_LIMIT: Final = 1000
"""Maximum number of files in a model folder whose estimates are cached."""


def request_key(kind: str, request: Any, *labels: Any) -> str | None:
    """Return the cache key for the result of a request; None if the result must not be cached.

    The key depends on the options and on the content of all files and folders that they name. The
    result is not cached in three cases:
    - The cache is disabled.
    - An option names code that users have written.
    - A model is a repository of a hub such as Hugging Face, whose files are not known in advance.

    Args:
        kind: Kind of the result, such as ``estimate``.
        request: The options: a dataclass, or a tuple of dataclasses. Every string that is the path
            of an existing file or folder is treated as a path.
        labels: Further inputs: plain values such as strings, none of which is a path.
    """
    if cache_folder() is None:
        return None
    try:
        options = _without_paths(request)
        files = [_file_content(text) for text in _texts(options)]
    except (NotCacheableError, OSError):
        return None
    return content_key(kind, options, files, *labels)


def _texts(value: Any) -> list[str]:
    """Return all strings in plain values, including those in nested values but no keys of dicts."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [text for item in items for text in _texts(item)]


def _without_paths(value: Any) -> Any:
    """Convert options to plain values such as dicts, tuples and strings. Paths become strings."""
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return {field.name: _without_paths(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _without_paths(item) for key, item in value.items()}
    return tuple(map(_without_paths, value)) if isinstance(value, list | tuple) else value


def _file_content(text: str) -> Any:
    """Return the names and hashes of a file, or of the files in a folder, for a cache key.

    The result is None if the string is not a path.

    Raises:
        NotCacheableError: The string contains a slash, like a path or a repository, but does not
            exist. Or the folder has too many files.
        OSError: The file cannot be read.
    """
    path = Path(text)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return None
    if not exists:
        if "/" in text:
            raise NotCacheableError(text)
        return None
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    if not path.is_dir():
        return [folder.name, path.name, _identity(path)]  # reports name a model after its file or folder
    files = sorted(file for file in path.iterdir() if file.is_file())
    if len(files) > FILES_LIMIT:
        raise NotCacheableError(text)
    return [folder.name, *([file.name, _identity(file)] for file in files)]


def _identity(path: Path) -> Any:
    """Return a value that changes when a file changes.

    It is the hash of a small file. For a large file, it is the path, size and modification time.

    Raises:
        NotCacheableError: The path is not a regular file.
        OSError: The file cannot be read.
    """
    if not path.is_file():
        raise NotCacheableError(str(path))
    status = path.stat()
    if status.st_size > CONTENT_LIMIT_BYTES:
        return [str(path.resolve()), status.st_size, status.st_mtime_ns]
    return sha256(path.read_bytes()).hexdigest()


def cached_estimate(request: EstimateRequest, *, on_progress: OnProgress = ignore) -> EstimateResult:
    """Return an estimate on wafers from the cache, or compute it and store it there.

    An estimate that writes a trace is always computed.

    Args:
        request: The request. Errors are those of `wse.studies.estimate.study.estimate`.
        on_progress: Called with (number of parts done, number of parts, name of the next part) if
            the estimate is not in the cache.
    """

    def compute() -> EstimateResult:
        """Make the estimate."""
        from wse.studies.estimate.study import estimate

        return estimate(request, on_progress=on_progress)

    key = request_key("estimate", request) if request.trace is None else None
    return cached(key, EstimateResult, compute)
