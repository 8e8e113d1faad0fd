"""Tests of ``wse run``: its report and its trace, also when the disk is full."""

import json
from pathlib import Path

import pytest
from small_files import small_files

from tests.cli.conftest import GOLDEN, Outcome, Wse, files_below
from wse.tracing.record import run
from wse_kernels.codegen.jit import KERNEL_FILES
from wse_traces import open_trace, problems
from wse_traces.writer import partial as partial_file

PLACED = ("--mesh", "4x4", "--mapping", "region")
SHORT = ("--prompt-ids", "1,2,3", "--new-tokens", "6", *PLACED)
SMALL = (*SHORT, "--schedule", "baseline")
"""Options of a short run without a search for rewrites."""


@pytest.mark.smoke
def test_json_report_is_consistent(wse: Wse, tiny: Path) -> None:
    outcome = wse("run", tiny, *SHORT, "--schedule", "optimized", "--json", "--logits")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert len(report["tokens"]) == 6 or report["tokens"][-1] == 2
    assert len(report["prompt_logits_last"]) == 16
    decode = report["decode"]
    assert sum(decode["cycles_by"].values()) == decode["cycles_per_token"]
    assert sum(report["sram"]["bytes_per_pe"].values()) == 49152
    assert report["wafer"]["clock_hz"] / decode["cycles_per_token"] == pytest.approx(decode["tokens_per_s"])
    assert "text" not in report  # the model has no tokenizer


def test_trace_is_written_to_the_given_file(wse: Wse, tiny: Path, empty: Path) -> None:
    assert wse("run", tiny, *SMALL).code == 0
    assert files_below(empty) == {"wse-run.h5"}
    assert wse("run", tiny, *SMALL, "--trace", "none").code == 0
    assert wse("run", tiny, *SMALL, "--trace", "other.h5").code == 0
    assert files_below(empty) == {"wse-run.h5", "other.h5"}


def test_run_warns_if_compiled_kernels_cannot_be_cached(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KERNEL_FILES, "trouble", "compiled kernels cannot be kept: a reason")
    outcome = wse("run", tiny, *SMALL, "--trace", "none")
    assert outcome.code == 0
    assert "wse: warning: compiled kernels cannot be kept: a reason\n" in outcome.err


def test_bug_is_raised_with_its_traceback(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("wse.studies.run.study.compile_program", broken)
    with pytest.raises(RuntimeError, match="ours"):
        wse("run", tiny, *SMALL)


KIB = 1 << 10
LONGER = ("--prompt-ids", "3,5,7", "--new-tokens", "20", *PLACED, "--schedule", "baseline")


@pytest.fixture
def unbuffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write each row of a trace immediately, so that a full disk is noticed during the run."""
    monkeypatch.setattr(partial_file, "_BUFFER_BYTES", KIB // 4)
    monkeypatch.setattr(run, "MAX_PASSES", 1)


def unfinished_tokens(target: Path, before: bytes) -> int:
    """Check that ``target`` is unchanged, and return the number of tokens in the valid ``target``.partial.

    Return -1 if there is no such file.
    """
    assert target.read_bytes() == before
    unfinished = target.with_name(target.name + ".partial")
    if not unfinished.exists():
        return -1
    assert problems(unfinished) == []
    with open_trace(unfinished) as trace:
        assert not trace.complete
        return trace.rows("token")


def run_on_full_disk(wse: Wse, tiny: Path, target: Path, policy: str) -> tuple[Outcome, int]:
    """Run the model with too little space for the trace, where another trace is.

    Return the outcome, and the number of tokens in the unfinished trace. The other trace must not change.
    """
    before = GOLDEN.read_bytes()
    target.write_bytes(before)
    with small_files(680 * KIB):  # room for some passes besides the reserve for metadata
        outcome = wse("run", tiny, *LONGER, "--trace", target, "--trace-policy", policy, "--json")
    return outcome, unfinished_tokens(target, before)


@pytest.mark.usefixtures("unbuffered")
def test_full_disk_stops_only_the_trace_with_policy_continue(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    outcome, tokens = run_on_full_disk(wse, tiny, tmp_path / "run.h5", "continue")
    assert outcome.code == 0
    replaced, stopped = outcome.err.splitlines()
    assert replaced.startswith("wse: warning: ")
    assert replaced.endswith("replaces the existing one; --trace NAME keeps both")
    assert stopped.startswith("wse: warning: ")
    assert stopped.endswith("; the run continues without a trace")
    report = json.loads(outcome.out)
    assert len(report["tokens"]) == 20
    assert report["trace"] == f"{tmp_path / 'run.h5'}.partial"
    assert "File too large" in report["trace_error"]
    assert 0 < tokens < 23


@pytest.mark.usefixtures("unbuffered")
def test_full_disk_stops_the_run_with_policy_stop(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    outcome, tokens = run_on_full_disk(wse, tiny, tmp_path / "run.h5", "stop")
    assert (outcome.code, outcome.out) == (2, "")
    assert "File too large" in outcome.err.splitlines()[-1]
    assert 0 < tokens < 23


@pytest.mark.usefixtures("unbuffered")
@pytest.mark.parametrize("policy", ["continue", "stop"])
def test_full_disk_without_room_for_an_empty_trace_leaves_no_file(
    wse: Wse, tiny: Path, tmp_path: Path, policy: str
) -> None:
    with small_files(20 * KIB):
        outcome = wse("run", tiny, *LONGER, "--trace", tmp_path / "run.h5", "--trace-policy", policy)
    assert (outcome.code == 0) == (policy == "continue")
    assert "cannot write a trace here: File too large" in outcome.err
    assert ("no trace" in outcome.out) == (policy == "continue")
    assert list(tmp_path.glob("run*")) == []
