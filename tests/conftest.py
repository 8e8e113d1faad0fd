"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("plain", max_examples=25)
settings.load_profile("plain")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and measurements: $WSE_SHARED, or shared/ beside the checkout."""
    folder = Path(os.environ.get("WSE_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is missing (set WSE_SHARED to the folder)")
    return folder


def pytest_collection_finish() -> None:
    """Leave what was collected, some hundred thousand objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
