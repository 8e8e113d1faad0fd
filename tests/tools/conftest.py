"""Fixture for tests of the scripts in ``tools``: a test module ``test_NAME`` tests the script ``NAME``."""

from types import ModuleType

import pytest
from tool_scripts import import_script


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> ModuleType:
    """Return the script that the test module is named after."""
    return import_script(request.module.__name__.rpartition(".")[2].removeprefix("test_"))
