"""Time and memory of ``wse inspect`` on whole wafers; ``pytest tests/benchmarks/test_inspect_speed.py -s`` prints them.

Goal: every view of a trace of three whole wafers and 115,200 steps in 1 s and 200 MB from a cold start of Python,
on one core; ``--diff`` reads two traces and may take twice that.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cold_process import cold
from full_wafer_trace import write_full_wafer

GOAL_S, GOAL_MB = 1.0, 200
VIEWS = (
    [],
    ["--steps"],
    ["--by", "op"],
    ["--by", "token"],
    ["--links", "--top", "100"],
    ["--pe", "1:500,300"],
    ["--tokens"],
    ["--tree"],
    ["--diff", "TRACE"],
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_full_wafer(tmp_path_factory.mktemp("full") / "full.h5")


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "summary")
def test_a_view_of_whole_wafers(trace: Path, view: list[str]) -> None:
    seconds, peak_mb, _ = cold("inspect", str(trace), *(str(trace) if part == "TRACE" else part for part in view))
    print(f"\n{' '.join(view) or 'summary':24} {seconds:5.2f} s {peak_mb:6.0f} MB")  # noqa: T201
    assert seconds < GOAL_S * (2 if "--diff" in view else 1)
    assert peak_mb < GOAL_MB
