"""The examples of ``wse inspect --help`` work when they are pasted beside traces of those names."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Wse

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
SHOWN = {
    "": "Costliest steps",
    "--steps": "those with the most cycles of launch first",
    "--by": "Decode by op",
    "--links": "Busiest links",
    "--pe": "SRAM map",
    "--tokens": "emulated in",
    "--diff": "Settings",
    "--check": ": sound: trace format 1",
    "--cycles": "Moves",
}


@pytest.mark.slow
def test_the_examples_of_the_help_work(wse: Wse, empty: Path, tiny: Path) -> None:
    assert wse("run", "--new-tokens", "6").code == 0
    shutil.copy(GOLDEN / "story-two-wafers.h5", empty / "other.h5")
    logged = ["--prompt-ids", "1,2", "--new-tokens", "2", "--wavelets", "--trace", "wavelets.h5"]
    assert wse("run", tiny, "--mesh", "3x3", *logged).code == 0
    examples = re.findall(r"^ {4}wse (inspect.*)$", wse("inspect", "--help").out, re.MULTILINE)
    told = {}
    for example in examples:
        arguments = shlex.split(example)
        outcome = wse(*arguments)
        assert outcome.code == 0, (example, outcome.err)
        told[arguments[2] if len(arguments) > 2 else ""] = outcome.out
    assert set(told) == set(SHOWN)
    assert [view for view, words in SHOWN.items() if words not in told[view]] == []
    assert (empty / "tokens.csv").read_text().count("\n") == 1 + told["--tokens"].count("prompt") + 6
