"""Time and memory of ``wse inspect`` on whole wafers; ``pytest tests/benchmarks/test_inspect_speed.py`` prints them.

Goal: every view of a trace of three whole wafers and 115,200 steps in 1 s and 200 MB from a cold start of Python,
on one core; ``--diff`` reads two traces and may take twice that.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cold_process import cold
from full_wafer_trace import write_full_wafer

from tests.benchmarks.conftest import BySize, Say

GOAL_S, GOAL_MB = 1.0, 200
VIEWS = (
    [],
    ["--steps"],
    pytest.param(["--by", "op"], marks=pytest.mark.full_size),
    ["--by", "token"],
    ["--links", "--top", "100"],
    ["--pe", "0:500,300"],
    pytest.param(["--tokens"], marks=pytest.mark.full_size),
    pytest.param(["--tree"], marks=pytest.mark.full_size),
    ["--diff", "TRACE"],
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory, by_size: BySize) -> Path:
    """Three whole wafers; in the small size one, of fewer layers and tokens."""
    sizes = by_size(small={"wafers": 1, "layers": 8, "schedules": 6, "tokens": 20}, full={})
    return write_full_wafer(tmp_path_factory.mktemp("full") / "full.h5", **sizes)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "summary")
def test_a_view_of_whole_wafers(trace: Path, view: list[str], by_size: BySize, say: Say) -> None:
    options = [str(trace) if part == "TRACE" else part for part in view]
    seconds, peak_mb, _ = cold("inspect", str(trace), *options, repeats=by_size(small=1, full=3))
    title, goal_s = " ".join(view) or "summary", GOAL_S * (2 if "--diff" in view else 1)
    say(f"{title:24} {seconds:5.2f} s (goal {goal_s:.0f} s) {peak_mb:4.0f} MB (goal {GOAL_MB} MB)")
