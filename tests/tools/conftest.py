"""The scripts of ``tools``, which are no package: a test module ``test_NAME`` has the script ``NAME``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> ModuleType:
    """The script that the test module is named after."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))
