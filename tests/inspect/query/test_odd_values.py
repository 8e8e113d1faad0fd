"""A trace whose numbers point nowhere is looked into as far as it goes, or refused in one line, for any view."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.inspect.runs import inspect
from tests.traces.conftest import write
from wse.errors import BadTrace
from wse.tracing.print.views import print_view
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.request import inspect_trace
from wse_traces.schema import BY_PATH

VIEWS: list[dict[str, Any]] = [
    {},
    {"steps": True, "sort": "start"},
    *({"by": by} for by in ("op", "cause", "token", "wafer")),
    {"links": True},
    {"pe": "0:2,2"},
    {"tokens": True},
    {"tree": True},
    {"tensors": True},
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("good") / "t.h5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "large"),
    [
        ("placement/stages/cols", True),
        ("schedules/first_step", True),
        ("steps/layer", False),
        ("steps/cycles", True),
        ("sram/buffers/bytes", True),
        ("routes/rows", False),
        ("steps/layer", True),
        ("steps/cycles", False),
        ("passes/start_cycle", False),
        ("tokens/pass", False),
        ("steps/op", True),
        ("steps/name", False),
        ("schedules/phase", True),
        ("steps/kind", True),
        ("tokens/is_prompt", True),
        ("links/layers/pattern", True),
        ("links/layers/pattern", False),
        ("links/layers/layer", False),
    ],
)
def test_every_view_tells_or_refuses(good: Path, tmp_path: Path, path: str, large: bool) -> None:  # noqa: FBT001
    odd = tmp_path / "t.h5"
    shutil.copy(good, odd)
    with h5py.File(odd, "r+") as file:
        file[path][...] = np.iinfo(BY_PATH[path].dtype).max if large else -7
    refusals = []
    for view in [*VIEWS, {"diff": good}]:
        try:
            print_view(inspect_trace(InspectRequest(trace=odd, **view)), io.StringIO(), top=None)
        except BadTrace as error:
            refusals.append(str(error))
    assert all("t.h5: " in refusal for refusal in refusals)
    assert len(refusals) <= len(VIEWS)


@pytest.mark.parametrize("path", ["schedules/first_step", "schedules/steps"])
def test_schedule_of_steps_that_are_not_there_is_a_problem(good: Path, tmp_path: Path, path: str) -> None:
    shutil.copy(good, tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        file[path][1] = 2**63 - 1
    problems = inspect(tmp_path / "t.h5", check=True)["problems"]
    assert any(problem.startswith("schedules/first_step[1]: ") for problem in problems)
