"""A run whose trace can no longer be written goes on or stops, and leaves whole what was there before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiers import slow_but

from tests.cli.conftest import Outcome, Wse
from wse.tracing.record import run
from wse_traces import open_trace, problems, write

KIB, MIB = 1 << 10, 1 << 20
ASKED = ("--prompt-ids", "3,5,7", "--mesh", "4x4", "--new-tokens", "20", "--schedule", "baseline")


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond a size: what a full disk does to files that grow, on any file system."""
    resource = pytest.importorskip("resource", reason="sizes of files cannot be limited on this system")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that holds 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can make a small file system, on Linux")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no small file system can be made here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written as they come, so that a full disk is found while the run goes on."""
    monkeypatch.setattr(write, "_BUFFER_BYTES", KIB // 4)
    monkeypatch.setattr(run, "MAX_PASSES", 1)


def left_whole(target: Path, before: bytes) -> int:
    """The tokens of the unfinished trace beside ``target``, which is as it was; -1 where there is none."""
    assert target.read_bytes() == before
    unfinished = target.with_name(target.name + ".partial")
    if not unfinished.exists():
        return -1
    assert problems(unfinished) == []
    with open_trace(unfinished) as trace:
        assert not trace.complete
        return trace.rows("token")


def attempts(wse: Wse, tiny: Path, target: Path, policy: str) -> tuple[Outcome, int]:
    """A run that writes beside an older good trace, and the tokens that its unfinished one holds."""
    assert wse("run", tiny, *ASKED, "--trace", target).code == 0
    before = target.read_bytes()
    with small_files(680 * KIB):  # what is written and the room kept for metadata: some of the passes fit
        outcome = wse("run", tiny, *ASKED, "--trace", target, "--trace-policy", policy, "--json")
    return outcome, left_whole(target, before)


def test_a_run_goes_on_without_its_trace(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    outcome, tokens = attempts(wse, tiny, tmp_path / "run.h5", "continue")
    assert outcome.code == 0
    replaced, lost = outcome.err.splitlines()
    assert replaced.startswith("wse: warning: ")
    assert replaced.endswith("replaces the existing one; --trace NAME keeps both")
    assert lost.startswith("wse: warning: ")
    assert lost.endswith("; the run continues without a trace")
    report = json.loads(outcome.out)
    assert len(report["tokens"]) == 20
    assert report["trace"] == f"{tmp_path / 'run.h5'}.partial"
    assert "File too large" in report["trace_error"]
    assert 0 < tokens < 23


def test_a_run_stops_with_its_trace(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    outcome, tokens = attempts(wse, tiny, tmp_path / "run.h5", "stop")
    assert (outcome.code, outcome.out) == (2, "")
    assert "File too large" in outcome.err.splitlines()[-1]
    assert 0 < tokens < 23


@pytest.mark.parametrize("policy", ["continue", "stop"])
def test_where_not_even_the_empty_trace_fits(wse: Wse, tiny: Path, tmp_path: Path, policy: str) -> None:
    with small_files(20 * KIB):
        outcome = wse("run", tiny, *ASKED, "--trace", tmp_path / "run.h5", "--trace-policy", policy)
    assert (outcome.code == 0) == (policy == "continue")
    assert "cannot write a trace here: File too large" in outcome.err
    assert ("no trace" in outcome.out) == (policy == "continue")
    assert list(tmp_path.glob("run*")) == []


@pytest.mark.parametrize("policy", slow_but(["continue", "stop"], "stop"))
def test_a_disk_that_is_full(wse: Wse, tiny: Path, small_disk: Path, policy: str) -> None:
    target = small_disk / "run.h5"
    asked = ("run", tiny, *ASKED, "--trace", target)
    assert wse(*asked).code == 0
    before = target.read_bytes()
    filler = small_disk / "filler"
    filler.write_bytes(bytes(3 * MIB - len(before) - 700 * KIB))
    outcome = wse(*asked, "--trace-policy", policy, "--json")
    assert "No space left on device" in outcome.err
    assert outcome.code == (0 if policy == "continue" else 2)
    assert left_whole(target, before) >= 0
    filler.unlink()
    outcome = wse(*asked)  # there is room again
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)
    assert [path.name for path in small_disk.iterdir()] == ["run.h5"]


def test_a_policy_that_there_is_not(wse: Wse) -> None:
    assert "did you mean 'continue'?" in wse("run", "--trace-policy", "contine").refusal()
