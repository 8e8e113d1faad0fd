"""``wse export``: damaged and unfinished traces, full disks and exports that are replaced."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from small_files import small_files
from tiers import slow_but

from tests.cli.conftest import Wse, files_below
from tests.traces.conftest import HEADER
from wse_traces import TraceWriter

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"


def test_run_that_was_stopped_before_anything_was_recorded(wse: Wse, empty: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceWriter(empty / "run.h5", HEADER):
        raise KeyboardInterrupt
    trace = "run.h5.partial"
    line = wse("export", trace, "--to", "png", "--what", "busy,links").refusal()
    assert line == (
        f"wse: --what busy, links: not recorded in {trace}, whose run was not completed; choose another, or run again "
        "to the end"
    )
    assert "nothing to draw in run.h5.partial" in wse("export", trace, "--to", "png").refusal()
    line = wse("export", trace, "--to", "csv").refusal()
    assert line == f"wse: {trace}: nothing is recorded yet; let the run go on, or make the trace again"
    assert "of a run that was not completed" in wse("export", trace, "--to", "perfetto").out
    assert "run.perfetto.json" in files_below(empty)


@pytest.mark.parametrize("to", slow_but(["perfetto", "csv", "parquet", "png"], "perfetto", "csv"))
def test_full_disk_leaves_what_was_there(wse: Wse, empty: Path, to: str) -> None:
    """A limit on the size of files stands in for a full disk: writes fail part of the way."""
    if to == "parquet" and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    assert wse("export", GOLDEN / "story.h5", "--to", to, "-o", "out").code == 0
    before = {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()}
    with small_files(2000):
        line = wse("export", GOLDEN / "story.h5", "--to", to, "-o", "out").refusal()
    assert re.fullmatch(r"wse: -o out: cannot be written \(.*File too large.*\); give another name", line)
    assert {p: p.read_bytes() for p in empty.rglob("*") if p.is_file()} == before
