"""Tests of ``wse estimate`` on wafers and GPUs: keys of the JSON output, default lengths, numbers of users."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_config
from tests.reference.test_json_keys import RESULTS, check_keys

PLACED = ("--mesh=6x6", "--mapping=region", "--schedule=baseline")


@pytest.mark.parametrize(
    "command",
    [
        ("estimate", *PLACED, "--prompt-len=9", "--new-tokens=8"),
        ("estimate", "--gpu=h100"),
        ("compile", *PLACED, "--prompt-len=2", "--new-tokens=3"),
        ("run", *PLACED, "--prompt-ids=1", "--new-tokens=3", "--weights=random:0", "--trace=none"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_config_without_a_type_is_bfloat16_with_a_note(wse: Wse, tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    text = " ".join(wse(name, write_config(tmp_path, "torch_dtype"), *options).out.split())
    assert "config.json states no torch_dtype: weights are assumed to be bfloat16" in text


def test_given_type_replaces_the_assumed_one_and_its_note(wse: Wse, tmp_path: Path) -> None:
    config = write_config(tmp_path, "torch_dtype")
    assumed, given = (estimate_json(wse, config, *H100, *option) for option in ((), ("--dtype", "float32")))
    assert (assumed["model"]["dtype"], "note" in assumed) == ("bfloat16", True)
    assert (given["model"]["dtype"], "note" in given) == ("float32", False)


def test_single_new_token_has_no_decode_figures(wse: Wse, tmp_path: Path) -> None:
    """The prompt phase computes the only token, so the keys about further tokens are absent, not zero."""
    config = write_config(tmp_path, num_hidden_layers=4)
    placed = ("--mesh", "8x8", "--mapping", "pipeline", "--region", "4x4", "--schedule", "baseline")
    arguments = ("estimate", config, *placed, "--prompt-len", "9", "--new-tokens", "1")
    report = json.loads(wse(*arguments, "--json").out)
    check_keys(report, RESULTS["estimate"])
    assert not {"decode", "crossing", "bounds", "schedule", "energy", "published"} & report.keys()
    assert report["serving"]["ttft_s"] == pytest.approx(report["latency"]["ttft_s"])
    assert report["serving"]["tokens_per_s"] == pytest.approx(1 / report["latency"]["ttft_s"])
    assert "tpot_s" not in report["serving"]
    assert report["prefill"]["tokens_per_s"] == 9 / report["latency"]["ttft_s"]
    assert "first token" in wse(*arguments, "--detail").out


SMALL = ("story", "--mesh", "11x11", "--wafers", "1", "--mapping", "region", "--schedule", "baseline", "--batch", "1")


def test_too_many_users_are_refused_with_the_maximum_number(wse: Wse) -> None:
    text = (
        r"caches of (\d+) sequences of 256 tokens on 1 wafer; "
        r"give --users (\d+), (?:--mesh \d+x\d+, )?more (--wafers (\(by bytes at least \d+\) )?or )?--replicas"
    )
    options = (*SMALL, "--prompt-len", "200", "--new-tokens", "56", "--users")
    searched, by_bytes = (re.search(text, wse("estimate", *options, n).refusal()) for n in ("7", "4000"))
    assert searched is not None
    assert by_bytes is not None
    assert searched[1] == searched[2] == by_bytes[2]
    assert searched[3] is not None
    assert by_bytes[3] is None, "more wafers would be needed than the model has layers"
    assert int(searched[2]) == 7 - 1, "7 users are refused above"
    assert wse("estimate", *options, searched[2]).code == 0


@pytest.mark.parametrize(
    ("options", "lengths", "note"),
    [
        (
            [],
            (20, 20),
            "20 tokens of prompt and 20 tokens generated instead of 1,024, for a total of the 40 tokens that tiny",
        ),
        (["--prompt-len", "9"], (9, 31), "31 tokens generated instead of 1,024"),
        (["--new-tokens", "39"], (1, 39), "1 token of prompt instead of 1,024"),
        (["--context", "30"], (15, 15), "of the 30 tokens of --context 30"),
    ],
    ids=str,
)
def test_default_lengths_are_limited_by_the_context_of_the_model(
    wse: Wse, tmp_path: Path, options: list[str], lengths: tuple[int, int], note: str
) -> None:
    config = write_config(tmp_path, max_position_embeddings=40)
    on_one_region = ("--mesh", "8x8", "--mapping", "region", "--schedule", "baseline")
    report = json.loads(wse("estimate", config, *on_one_region, *options, "--json").out)
    assert (report["inputs"]["prompt_len"], report["inputs"]["new_tokens"]) == lengths
    assert note.replace("tiny", report["model"]["name"]) in report["note"]


H100 = ("--gpu", "h100")


def estimate_json(wse: Wse, *arguments: object) -> Any:
    answer = wse("estimate", *arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_gpu_estimate_has_consistent_figures(wse: Wse) -> None:
    report = estimate_json(wse, "llama-3.1-70b", *H100, "--gpus", 8, "--stack", "vllm", "--dtype", "fp8", "--batch", 16)
    assert report["model"]["name"] == "llama-3.1-70b"
    assert report["model"]["parameters"] == 70_553_706_496
    assert report["model"]["dtype"] == "fp8"
    assert report["system"]["gpus"] == 8
    decode, latency = report["decode"], report["latency"]
    point = next(point for point in report["serving"]["points"] if point["users"] == 16)
    request_s = point["ttft_s"] + 1023 * point["tpot_s"]
    assert decode["tokens_per_s"] == point["tokens_per_s"] == pytest.approx(16 * 1024 / request_s)
    assert decode["tokens_per_s_per_user"] == point["tokens_per_s_per_user"]
    assert decode["tokens_per_s_per_user"] == pytest.approx(1 / latency["tpot_s"])
    assert math.fsum(latency["tpot_by"].values()) == pytest.approx(latency["tpot_s"])
    assert latency["bound_s"] < latency["tpot_s"]
    assert report["prefill"]["tokens_per_s"] == 1024 / latency["ttft_s"]
    assert report["grades"]["prefill.tokens_per_s"] == report["grades"]["latency.ttft_s"]
    assert report["energy"]["joules_per_token"] == pytest.approx(8 * 450 / decode["tokens_per_s"])
    assert report["cost"]["usd_per_million_tokens"] == pytest.approx(8 * 2.95 / 3600 / decode["tokens_per_s"] * 1e6)
    assert report["memory"]["kv_capacity_users"] > 16
    assert report["grades"]["decode.tokens_per_s"]["grade"] == "D"
    assert report["grades"]["cost.usd_per_million_tokens"]["grade"] == "D"


def test_batch_that_does_not_fit_is_refused_with_the_maximum(wse: Wse) -> None:
    refusal = wse("estimate", "llama-3-8b", *H100, "--batch", 1000).refusal()
    max_batch = int(refusal.partition("give --batch ")[2].partition(",")[0])
    assert wse("estimate", "llama-3-8b", *H100, "--batch", max_batch).code == 0
    assert wse("estimate", "llama-3-8b", *H100, "--batch", max_batch + 1).code == 2
