"""Pytest configuration: docstring examples name files relative to the root of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in the root folder of the checkout."""
    monkeypatch.chdir(Path(__file__).parents[1])
