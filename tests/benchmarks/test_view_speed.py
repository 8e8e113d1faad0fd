"""Time until pages of full wafers can be used, and size: ``pytest tests/benchmarks/test_view_speed.py`` prints them.

Goals: 2 s from navigation to the mark that the page sets once all of its sections are drawn, 8 MB. Chromium draws here
without a graphics card.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import BySize, Say
from tests.inspect.page.conftest import browser, opened  # noqa: F401
from wse.cli import main

DATA = "JSON.parse(document.getElementById('data').textContent).traces[0]"
GOAL_MS, GOAL_BYTES = 2000, 8_000_000


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param("llama-3-8b", ["--batch", "4"], id="one wafer"),
        pytest.param("llama-3.1-70b", ["--mapping", "auto"], id="four wafers", marks=pytest.mark.full_size),
        pytest.param("glm-4.5", ["--dtype", "fp8"], id="thirty wafers", marks=pytest.mark.full_size),
    ],
)
def test_a_page_of_full_wafers_can_be_used_soon(
    tmp_path: Path,
    opened: Callable[..., Any],  # noqa: F811
    model: str,
    options: list[str],
    by_size: BySize,
    say: Say,
) -> None:
    trace = tmp_path / "estimate.h5"
    options += by_size(small=["--schedule", "baseline"], full=[])
    assert main(["estimate", model, *options, "--trace", str(trace)]) == 0
    times = []
    for _ in range(by_size(small=1, full=5)):
        page = opened(trace)
        times.append(page.execute_script("return performance.getEntriesByName('usable')[0].startTime"))
        assert page.get_log("browser") == []
    size = page.execute_script("return performance.getEntriesByType('navigation')[0].decodedBodySize")
    rows, cols = page.execute_script(f"const trace = {DATA}; return [trace.rows, trace.cols]")
    usable = f"usable after {min(times):.0f} to {max(times):.0f} ms (goal {GOAL_MS} ms)"
    say(f"{model}: {rows}x{cols} PEs, {size / 1e6:.2f} MB (goal {GOAL_BYTES / 1e6:.0f} MB), {usable}")
    assert rows * cols > 700_000
    assert 0 < size < GOAL_BYTES
