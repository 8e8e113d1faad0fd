"""The examples that a command's help shows work when they are pasted."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse
from tests.traces.conftest import HEADER, moves
from wse_traces import TraceWriter

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
BASELINE = ["--schedule", "baseline"]
MORE = {
    "run": ["--new-tokens", "3", *BASELINE],
    "compile": BASELINE,
    "estimate": BASELINE,
    "serve-sim": ["--requests", "500", *BASELINE],
}
"""Options that make examples quicker: no search for rewrites, fewer tokens and requests."""
SHOWN = {
    "run": (4, "Placement"),
    "compile": (1, "Placement"),
    "estimate": (3, "s/user"),
    "serve-sim": (4, "Latency"),
    "view": (3, ".html: "),
    "models": (1, "story"),
    "wafers": (1, "wse2"),
    "mappings": (1, "region"),
    "inspect": (11, ""),
    "export": (6, "written"),
    "pattern": (4, "bound"),
}
"""How many examples a command has at least, and what each of them prints."""


@pytest.mark.parametrize("command", slow_but(SHOWN, "view", "models", "wafers", "mappings"))
def test_examples_of_the_help_work(wse: Wse, empty: Path, command: str) -> None:
    for name in ("wse-run", "before", "after", "other"):
        shutil.copy(GOLDEN / "story.h5", empty / f"{name}.h5")
    with TraceWriter(empty / "wavelets.h5", HEADER) as trace:
        trace.append("wavelet", moves(100) | {"wafer": [0, 0, 0]})
        trace.append("wavelet_source", {"source": [4, 3, 3]})
        trace.write_summary({})
    examples = re.findall(rf"^ {{4}}wse ({command}.*)$", wse(command, "--help").out, re.MULTILINE)
    least, shown = SHOWN[command]
    assert len(examples) >= least
    for example in examples:
        if "750" in example or ("parquet" in example and importlib.util.find_spec("pyarrow") is None):
            continue
        outcome = wse(*shlex.split(example), *([] if "--gpu" in example else MORE.get(command, [])))
        assert outcome.code == 0, (example, outcome.err)
        assert shown in outcome.out
