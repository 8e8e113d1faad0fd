"""Tests of ``wse sweep`` on the command line: its table, and resuming after a kill or an interrupt."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Wse, files_below
from tests.cli.test_process import start
from tests.models.helpers import write_config
from tests.reference.test_json_keys import RESULTS, check_keys
from wse.studies.sweep.journal import Journal
from wse.studies.sweep.request import read_grid

LENGTHS = ("--set", "prompt_len=5", "--set", "new_tokens=4", "--set", "mapping=region", "--set", "schedule=baseline")


def test_sweep_writes_a_table_and_reports_json(wse: Wse, empty: Path) -> None:
    write_config(empty)
    (empty / "grid.toml").write_text(
        'model = "config.json"\nprompt_len = 5\nnew_tokens = 4\nwafer.hop_cycles = [1, 2]\nwafers = [1, 3]\n'
        'schedule = "baseline"\nmapping = "region"\n'
    )
    with Journal(empty / "t.csv", "another sweep's", 4):
        pass
    command = ("sweep", "grid.toml", "-o", "t.csv", "--jobs", "1", "--json", "--set", "mesh=3x3")
    assert "t.csv.partial: was begun with other settings" in wse(*command).refusal()
    outcome = wse(*command, "--restart")
    assert outcome.code == 0, outcome
    report = json.loads(outcome.out)
    check_keys(report, RESULTS["sweep"])
    assert (report["settings"], report["settings_failed"], report["table"]) == (4, 2, "t.csv")
    with (empty / "t.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[:9] == [
        "model", "prompt_len", "new_tokens", "wafer_hop_cycles", "wafers", "schedule", "mapping", "mesh", "error"
    ]  # fmt: skip
    settings = [(row["wafer_hop_cycles"], row["wafers"], bool(row["error"])) for row in rows]
    assert settings == [("1", "1", False), ("1", "3", True), ("2", "1", False), ("2", "3", True)]
    assert not {name for name in rows[0] if " " in name or "." in name}
    assert files_below(empty) == {"config.json", "grid.toml", "t.csv"}


def wait_for_lines(process: subprocess.Popen[bytes], journal: Path, lines: int) -> None:
    """Wait until the journal has at least this number of lines."""
    while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def all_have_ended(group: int) -> bool:
    """Wait up to 60 s, and return whether all processes of the process group have ended."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no groups of processes")
def test_killed_and_interrupted_sweep_resumes_to_the_same_table(wse: Wse, empty: Path) -> None:
    write_config(empty)
    grid = ["config.json", "--set", "mesh=3x3,3x2", "--set", "wafer.hop_cycles=1,2,3", *LENGTHS]
    assert wse("sweep", *grid, "-o", "whole.csv", "--jobs", "1").code == 0
    journal = empty / "t.csv.partial"
    for kill, lines, code in ((signal.SIGKILL, 2, -signal.SIGKILL), (signal.SIGINT, 4, 130)):
        process = start(empty, "sweep", *grid, "-o", "t.csv", "--jobs", "1", start_new_session=True)
        wait_for_lines(process, journal, lines)
        if kill == signal.SIGINT:
            os.killpg(process.pid, kill)  # as a terminal does on Ctrl-C
        else:
            process.send_signal(kill)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code
        assert out == b""
        assert b"Traceback" not in err
        if kill == signal.SIGINT:
            saved = re.findall(r"sweep: (\d) of 6 settings are saved; the same command resumes after", err.decode())
            written = journal.read_bytes().count(b"\n") - 1
            assert int(saved[0]) in (written, written - 1)  # the last one may be written but not yet counted
        assert all_have_ended(process.pid)
        assert not (empty / "t.csv").exists()
    done = journal.read_bytes().count(b"\n") - 1
    other = wse("sweep", *grid, "--set", "context=9", "-o", "t.csv").refusal()
    assert "t.csv.partial: was begun with other settings" in other
    assert "--restart" in other
    outcome = wse("sweep", *grid, "-o", "t.csv", "--jobs", "1", "--json")
    assert json.loads(outcome.out)["settings_resumed"] in (done, done - 1)  # the last line may be incomplete
    assert f"sweep: going on after {json.loads(outcome.out)['settings_resumed']} of 6 settings" in outcome.err
    assert (empty / "t.csv").read_bytes() == (empty / "whole.csv").read_bytes()
    assert files_below(empty) == {"config.json", "t.csv", "whole.csv"}


def test_examples_of_the_help_are_valid_grids(wse: Wse) -> None:
    lines = [line.strip() for line in wse("sweep", "--help").out.split("\n")]
    examples = [shlex.split(line)[2:] for line in lines if line.startswith("wse sweep")]
    assert [len(read_grid(source, rest[1::2])) for source, *rest in examples] == [4, 2]
    assert all(set(rest[::2]) == {"--set"} for _, *rest in examples)
    begin = lines.index('model = "story"')
    Path("grid.toml").write_text("\n".join(lines[begin : begin + 3]))
    assert len(read_grid("grid.toml", [])) == 4


@pytest.mark.parametrize(("option", "has_setting"), [("--users", True), ("--most-users", False), ("--detail", False)])
def test_unknown_options_are_named_as_settings_only_if_they_can_be_swept(
    wse: Wse, option: str, *, has_setting: bool
) -> None:
    line = wse("sweep", "story", option).refusal()
    assert "it is an option of" in line
    assert ("--set" in line) == has_setting
