"""Fixtures of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and measurements: $WSE_SHARED, or shared/ beside the checkout."""
    folder = Path(os.environ.get("WSE_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is missing (set WSE_SHARED to the folder)")
    return folder
