"""Pytest configuration: docstring examples name files relative to the root of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with the root folder of the repository as its working directory."""
    monkeypatch.chdir(Path(__file__).parents[1])
