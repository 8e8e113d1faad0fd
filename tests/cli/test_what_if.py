"""``wse estimate --what-if`` on the command line: its table, its picture, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wse

QUICK = ("--mapping", "region", "--schedule", "baseline")
FLAGS = ("--mesh", "24x24", *QUICK, "--prompt-len", 16, "--new-tokens", 16)


def test_what_is_of_one_machine_is_refused(wse: Wse) -> None:
    for options, part in (
        (("--gpu", "h100"), "--gpu h100: --what-if changes numbers of wafers"),
        (("--trace", "a.h5"), "--trace: is of one machine"),
        (("--sensitivity",), "--sensitivity: is of one machine"),
        (("--detail",), "--detail: applies to one machine"),
        (("--new-tokens", 1), "--new-tokens 1: nothing is decoded"),
        (("--png", "a.pdf"), "--png a.pdf: give the name of a PNG image, which ends in .png"),
    ):
        assert part in wse("estimate", "story", "--what-if", "clock=x2", *options).refusal()
    assert "--png a.png: draws the result of --what-if" in wse("estimate", "story", "--png", "a.png").refusal()


def test_the_command_prints_the_table_and_writes_the_picture(wse: Wse, empty: Path) -> None:
    done = wse("estimate", "story", *FLAGS, "--what-if", "clock=x2,latency=x0.5", "--png", "t.png")
    assert done.code == 0
    assert "clock x2" in done.out
    assert "875 MHz → 1.75 GHz" in done.out
    assert (empty / "t.png").read_bytes().startswith(b"\x89PNG")
    printed = json.loads(wse("estimate", "story", *FLAGS, "--what-if", "clock=x2", "--json").out)
    assert printed["changes"][0]["factors"]["tokens_per_s_per_user"] == pytest.approx(2)


def test_changes_of_which_none_can_be_are_an_error(wse: Wse) -> None:
    tiny = ["--mesh", "24x24", "--wafers", "1", "--mapping", "region", "--prompt-len", "8", "--new-tokens", "8"]
    line = wse("estimate", "story", *tiny, "--what-if", "clock=x1e9").refusal()
    assert "--what-if: none of 1 change is possible: clock x1e9: wafer wse3: clock_hz" in line
