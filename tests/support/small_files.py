"""Files that cannot grow: what a full disk does, on any file system."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond a size."""
    resource = pytest.importorskip("resource", reason="sizes of files cannot be limited on this system")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
