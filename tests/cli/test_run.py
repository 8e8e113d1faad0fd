"""``wse run``: what it prints, writes and reports, also if its trace cannot be written to the end."""

import json
from pathlib import Path

import pytest
from small_files import small_files

from tests.cli.conftest import Outcome, Wse, files_below
from wse.tracing.record import run
from wse_kernels.library import KERNEL_FILES
from wse_traces import open_trace, problems
from wse_traces.writer import partial as partial_file

SMALL = ("--prompt-ids", "1,2,3", "--new-tokens", "6", "--schedule", "baseline")
"""A short run for which no rewrites are tried; those of ``optimized`` are where a schedule is given again."""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--schedule", "optimized"], marks=pytest.mark.smoke),
        ["--mapping", "tensor", "--wafers", "3", "--dtype", "int4"],
    ],
    ids=str,
)
def test_json_of_a_run_adds_up(wse: Wse, tiny: Path, options: list[str]) -> None:
    outcome = wse("run", tiny, *SMALL, *options, "--json", "--logits")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert len(report["tokens"]) == 6 or report["tokens"][-1] == 2
    assert len(report["prompt_logits_last"]) == 16
    decode = report["decode"]
    assert sum(decode["cycles_by"].values()) == decode["cycles_per_token"]
    assert sum(report["sram"]["bytes_per_pe"].values()) == 49152
    assert report["wafer"]["clock_hz"] / decode["cycles_per_token"] == pytest.approx(decode["tokens_per_s"])
    assert "text" not in report  # the model has no tokenizer


def test_trace_is_where_it_was_asked_for(wse: Wse, tiny: Path, empty: Path) -> None:
    assert wse("run", tiny, *SMALL).code == 0
    assert files_below(empty) == {"wse-run.h5"}
    assert wse("run", tiny, *SMALL, "--trace", "none").code == 0
    assert wse("run", tiny, *SMALL, "--trace", "other.h5").code == 0
    assert files_below(empty) == {"wse-run.h5", "other.h5"}


def test_kernels_that_cannot_be_kept_are_no_reason_to_stop(
    wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KERNEL_FILES, "trouble", "compiled kernels cannot be kept: a reason")
    outcome = wse("run", tiny, *SMALL, "--trace", "none")
    assert outcome.code == 0
    assert "wse: warning: compiled kernels cannot be kept: a reason\n" in outcome.err


def test_bug_keeps_its_traceback(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        message = "ours"
        raise RuntimeError(message)

    monkeypatch.setattr("wse.studies.run.study.compile_program", broken)
    with pytest.raises(RuntimeError, match="ours"):
        wse("run", tiny, *SMALL)


KIB = 1 << 10
ASKED = ("--prompt-ids", "3,5,7", "--mesh", "4x4", "--new-tokens", "20", "--schedule", "baseline")


@pytest.fixture
def unbuffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write every row at once, so that a full disk is noticed during the run."""
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


@pytest.mark.usefixtures("unbuffered")
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


@pytest.mark.usefixtures("unbuffered")
def test_run_stops_with_its_trace(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    outcome, tokens = attempts(wse, tiny, tmp_path / "run.h5", "stop")
    assert (outcome.code, outcome.out) == (2, "")
    assert "File too large" in outcome.err.splitlines()[-1]
    assert 0 < tokens < 23


@pytest.mark.usefixtures("unbuffered")
@pytest.mark.parametrize("policy", ["continue", "stop"])
def test_where_not_even_the_empty_trace_fits(wse: Wse, tiny: Path, tmp_path: Path, policy: str) -> None:
    with small_files(20 * KIB):
        outcome = wse("run", tiny, *ASKED, "--trace", tmp_path / "run.h5", "--trace-policy", policy)
    assert (outcome.code == 0) == (policy == "continue")
    assert "cannot write a trace here: File too large" in outcome.err
    assert ("no trace" in outcome.out) == (policy == "continue")
    assert list(tmp_path.glob("run*")) == []
