"""Fixture: the traces whose tables of steps and groups are compared with a plain loop."""

from pathlib import Path

import pytest

from tests.inspect.runs import GOLDEN
from tests.traces.conftest import write


@pytest.fixture(scope="module", params=["story-two-wafers.h5", "written"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a golden trace, and then of the small trace."""
    if request.param == "written":
        return write(tmp_path_factory.mktemp("written") / "t.h5")
    return GOLDEN / request.param
