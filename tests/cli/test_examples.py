"""The examples that ``wse run --help`` shows work when they are pasted."""

from __future__ import annotations

import re
import shlex

from tests.cli.conftest import Wse


def test_the_examples_of_run_work(wse: Wse) -> None:
    examples = re.findall(r"^ {4}wse (run.*)$", wse("run", "--help").out, re.MULTILINE)
    assert len(examples) >= 4
    for example in examples:
        outcome = wse(*shlex.split(example))
        assert outcome.code == 0, (example, outcome.err)
        assert "Placement" in outcome.out
