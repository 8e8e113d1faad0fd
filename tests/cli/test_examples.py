"""The examples that a command's help shows work when they are pasted."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.conftest import Wse


@pytest.mark.parametrize(
    ("command", "least", "shown"), [("run", 4, "Placement"), ("estimate", 3, "What limits a token")]
)
def test_the_examples_of_the_help_work(wse: Wse, command: str, least: int, shown: str) -> None:
    examples = re.findall(rf"^ {{4}}wse ({command}.*)$", wse(command, "--help").out, re.MULTILINE)
    assert len(examples) >= least
    for example in examples:
        outcome = wse(*shlex.split(example))
        assert outcome.code == 0, (example, outcome.err)
        assert shown in outcome.out
