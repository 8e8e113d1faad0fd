"""``wse run``: what it prints, writes and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wse, files_below
from wse_kernels.library import KERNEL_FILES

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
