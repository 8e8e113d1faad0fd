"""A run whose trace can no longer be written goes on or stops, and leaves whole what was there before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_files import small_files

from tests.cli.conftest import Outcome, Wse
from wse.tracing.record import run
from wse_traces import open_trace, problems
from wse_traces.writer import partial as partial_file

KIB = 1 << 10
ASKED = ("--prompt-ids", "3,5,7", "--mesh", "4x4", "--new-tokens", "20", "--schedule", "baseline")


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written as they come, so that a full disk is found while the run goes on."""
    monkeypatch.setattr(partial_file, "_BUFFER_BYTES", KIB // 4)
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


def test_run_goes_on_without_its_trace(wse: Wse, tiny: Path, tmp_path: Path) -> None:
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


def test_run_stops_with_its_trace(wse: Wse, tiny: Path, tmp_path: Path) -> None:
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
