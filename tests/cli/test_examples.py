"""The examples that a command's help shows work when they are pasted."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Wse

STORY = Path(__file__).parents[2] / "traces" / "golden" / "v1" / "story.h5"

BASELINE = ["--schedule", "baseline"]
MORE = {
    "run": ["--new-tokens", "3", *BASELINE],
    "compile": BASELINE,
    "estimate": BASELINE,
    "serve-sim": ["--requests", "500", *BASELINE],
}


@pytest.mark.parametrize(
    ("command", "least", "shown"),
    [
        pytest.param("run", 4, "Placement", marks=pytest.mark.slow),
        pytest.param("compile", 1, "Placement", marks=pytest.mark.slow),
        pytest.param("estimate", 3, "s/user", marks=pytest.mark.slow),
        pytest.param("serve-sim", 4, "Latency", marks=pytest.mark.slow),
        ("view", 3, ".html: "),
        ("models", 1, "story"),
        ("wafers", 1, "wse2"),
        ("mappings", 1, "region"),
    ],
)
def test_the_examples_of_the_help_work(wse: Wse, empty: Path, command: str, least: int, shown: str) -> None:
    """Without a search for rewrites; where text is generated or served, with fewer tokens and requests."""
    for name in ("wse-run", "before", "after"):
        shutil.copy(STORY, empty / f"{name}.h5")
    examples = re.findall(rf"^ {{4}}wse ({command}.*)$", wse(command, "--help").out, re.MULTILINE)
    assert len(examples) >= least
    for example in examples:
        outcome = wse(*shlex.split(example), *([] if "--gpu" in example else MORE.get(command, [])))
        assert outcome.code == 0, (example, outcome.err)
        assert shown in outcome.out
