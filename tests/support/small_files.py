"""Simulation of a full disk by a limit on the size of files."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """Limit the size of all files that this process writes, while the context lasts."""
    resource = pytest.importorskip("resource", reason="sizes of files cannot be limited on this system")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
