"""``wse estimate --what-if`` on the command line: its table and its picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wse

QUICK = ("--mapping", "region", "--schedule", "baseline")
FLAGS = ("--mesh", "24x24", *QUICK, "--prompt-len", 16, "--new-tokens", 16)


def test_command_prints_the_table_and_writes_the_picture(wse: Wse, empty: Path) -> None:
    done = wse("estimate", "story", *FLAGS, "--what-if", "clock=x2,latency=x0.5", "--png", "t.png")
    assert done.code == 0
    assert "clock x2" in done.out
    assert "875 MHz → 1.75 GHz" in done.out
    assert (empty / "t.png").read_bytes().startswith(b"\x89PNG")
    printed = json.loads(wse("estimate", "story", *FLAGS, "--what-if", "clock=x2", "--json").out)
    assert printed["changes"][0]["factors"]["tokens_per_s_per_user"] == pytest.approx(2)
