"""``wse run``: what it prints, writes and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse, files_below
from wse_kernels.library import KERNEL_FILES

PROMISED = {
    "": ["tokens", "prompt_tokens", "prompt_logits_last", "trace"],
    "model": ["name", "parameters", "dtype", "bytes"],
    "wafer": ["name", "rows", "cols", "clock_hz"],
    "system": ["wafers", "regions"],
    "sram": ["bytes_per_pe", "fullest_pe_fraction", "kv_capacity_tokens", "fits"],
    "sram.bytes_per_pe": ["code", "weights", "kv", "activations", "buffers", "free"],
    "prefill": ["cycles", "s", "tokens_per_s"],
    "decode": ["cycles_per_token", "cycles_per_layer", "tokens_per_s_per_user", "tokens_per_s", "cycles_by"],
    "decode.cycles_by": ["hops", "relays", "compute", "launch", "crossing", "host"],
    "fabric": ["wavelet_hops_per_token", "busiest_link_words_per_token", "colours_used"],
    "crossing": ["bytes_per_token", "s_per_token"],
    "emulation": ["wall_s", "tokens_per_s"],
}
SMALL = ("--prompt-ids", "1,2,3", "--new-tokens", "6", "--schedule", "baseline")
"""A short run for which no rewrites are tried; those of ``optimized`` are where a schedule is given again."""


def at(report: dict[str, Any], path: str) -> Any:
    for key in filter(None, path.split(".")):
        report = report[key]
    return report


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--schedule", "optimized"], marks=pytest.mark.smoke),
        ["--mapping", "pipeline", "--mesh", "2x2"],
        ["--wafers", "2"],
        ["--mapping", "tensor", "--wafers", "3"],
        ["--dtype", "int4"],
    ],
    ids=str,
)
def test_json_has_every_promised_key(wse: Wse, tiny: Path, options: list[str]) -> None:
    outcome = wse("run", tiny, *SMALL, *options, "--json", "--logits")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    missing = [f"{where}.{key}" for where, keys in PROMISED.items() for key in keys if key not in at(report, where)]
    assert missing == []
    assert len(report["tokens"]) == 6 or report["tokens"][-1] == 2
    assert len(report["prompt_logits_last"]) == 16
    decode = report["decode"]
    assert sum(decode["cycles_by"].values()) == decode["cycles_per_token"]
    assert sum(report["sram"]["bytes_per_pe"].values()) == 49152
    assert report["wafer"]["clock_hz"] / decode["cycles_per_token"] == pytest.approx(decode["tokens_per_s"])
    assert "text" not in report  # the model has no tokenizer


def test_quantised_weights_are_told_with_the_type_of_the_rest(wse: Wse, tiny: Path) -> None:
    """The tiny checkpoint is of float32, which activations and scales keep."""
    options = (*SMALL, "--mesh", "2x3", "--dtype", "int8", "--trace", "none")
    report = json.loads(wse("run", tiny, *options, "--json").out)
    model = report["model"]
    assert (model["dtype"], model["activations"], model["accumulate"]) == ("int8", "float32", "float32")
    assert model["bytes"] < model["parameters"] * 4
    told = " ".join(wse("run", tiny, *options).out.split())
    assert "as int8, activations as float32, accumulation in float32" in told
    half = json.loads(wse("run", tiny, *options, "--activations", "float16", "--json").out)
    assert half["model"]["activations"] == "float16"
    assert half["sram"]["bytes_per_pe"]["weights"] < report["sram"]["bytes_per_pe"]["weights"]
    assert "activations in" not in wse("run", tiny, *SMALL, "--trace", "none").out


def test_a_cut_between_wafers_is_hidden_size_times_bytes(wse: Wse, tiny: Path) -> None:
    """And the id that the last wafer found goes back to the first, which has the embedding."""
    report = json.loads(wse("run", tiny, *SMALL, "--wafers", "2", "--json").out)
    assert report["crossing"]["bytes_per_token"] == 12 * 4 + 4
    assert report["system"]["cut_bytes_per_token"] == 12 * 4 + 4


def test_the_trace_is_where_it_was_asked_for(wse: Wse, tiny: Path, empty: Path) -> None:
    assert wse("run", tiny, *SMALL).code == 0
    assert files_below(empty) == {"wse-run.h5"}
    assert wse("run", tiny, *SMALL, "--trace", "none").code == 0
    assert wse("run", tiny, *SMALL, "--trace", "other.h5").code == 0
    assert files_below(empty) == {"wse-run.h5", "other.h5"}


def test_the_last_pass_can_be_logged_wavelet_by_wavelet(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    options = (*SMALL, "--mesh", "3x3", "--trace", path)
    report = json.loads(wse("run", tiny, *options, "--wavelets", "--json").out)
    assert report["wavelets"]["moves"] > report["wavelets"]["wavelet_hops"] > 0
    assert "wavelets  " in wse("run", tiny, *options, "--wavelets").out
    assert "by wavelets" not in wse("run", tiny, *options).out


def test_kernels_that_cannot_be_kept_are_no_reason_to_stop(
    wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KERNEL_FILES, "trouble", "compiled kernels cannot be kept: a reason")
    outcome = wse("run", tiny, *SMALL, "--trace", "none")
    assert outcome.code == 0
    assert "wse: warning: compiled kernels cannot be kept: a reason\n" in outcome.err


def test_a_drawn_token_costs_a_way_to_the_host(wse: Wse, tiny: Path) -> None:
    drawn = [
        json.loads(wse("run", tiny, *SMALL, "--temperature", "2", "--seed", seed, "--json").out) for seed in (1, 1, 2)
    ]
    assert drawn[0]["tokens"] == drawn[1]["tokens"]
    assert drawn[0]["decode"]["cycles_by"]["host"] > 0


def test_a_bug_keeps_its_traceback(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        message = "ours"
        raise RuntimeError(message)

    monkeypatch.setattr("wse.studies.run.study.compile_program", broken)
    with pytest.raises(RuntimeError, match="ours"):
        wse("run", tiny, *SMALL)
