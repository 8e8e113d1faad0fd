"""Help: summaries that fit, the width of lines, and completion in a shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Wse
from tests.cli.test_process import ENVIRONMENT, WSE
from wse.cli.app import COMMANDS


def test_summary_of_each_command_fits_its_line(wse: Wse) -> None:
    listed = re.findall(r"^ {2}([\w-]+) +(.*)$", wse("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert [name for name, _ in listed[: len(COMMANDS)]] == list(COMMANDS)
    assert all(summary.endswith(".") and "..." not in summary for _, summary in listed[: len(COMMANDS)])


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help_and_fits_80_columns(wse: Wse, command: str) -> None:
    words = [command] if command else []
    text = wse(*words, "-h").out
    assert text == wse(*words, "--help").out
    long = [line for line in text.split("\n") if len(line) > 80 and not line.startswith("    wse ")]
    assert not long


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wse es", "estimate"),
        ("wse run --wafer ws", "wse2\nwse3"),
        ("wse estimate llama-3-8", "llama-3-8b"),
        ("wse run --temp", "--temperature"),
    ],
)
def test_shell_completes(tmp_path: Path, line: str, offered: str) -> None:
    asked = {"_WSE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(WSE, env=ENVIRONMENT | asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == offered
