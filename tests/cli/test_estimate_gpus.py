"""``wse estimate --gpu``: a model on GPUs instead of wafers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.cli.conftest import Wse

H100 = ("--gpu", "h100")


def result(wse: Wse, *arguments: object) -> Any:
    answer = wse("estimate", *arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_keys_of_the_contract(wse: Wse) -> None:
    got = result(wse, "llama-3.1-70b", *H100, "--gpus", 8, "--stack", "vllm", "--dtype", "fp8", "--batch", 16)
    assert got["model"]["name"] == "llama-3.1-70b"
    assert got["model"]["parameters"] == 70_553_706_496
    assert got["model"]["dtype"] == "fp8"
    assert got["system"]["gpus"] == 8
    decode, latency = got["decode"], got["latency"]
    point = next(point for point in got["serving"]["points"] if point["users"] == 16)
    request_s = point["ttft_s"] + 1023 * point["tpot_s"]
    assert decode["tokens_per_s"] == point["tokens_per_s"] == pytest.approx(16 * 1024 / request_s)
    assert decode["tokens_per_s_per_user"] == point["tokens_per_s_per_user"]
    assert decode["tokens_per_s_per_user"] == pytest.approx(1 / latency["tpot_s"])
    assert math.fsum(latency["tpot_by"].values()) == pytest.approx(latency["tpot_s"])
    assert latency["bound_s"] < latency["tpot_s"]
    assert got["prefill"]["tokens_per_s"] == 1024 / latency["ttft_s"]
    assert got["grades"]["prefill.tokens_per_s"] == got["grades"]["latency.ttft_s"]
    assert got["energy"]["joules_per_token"] == pytest.approx(8 * 450 / decode["tokens_per_s"])
    assert got["cost"]["usd_per_million_tokens"] == pytest.approx(8 * 2.95 / 3600 / decode["tokens_per_s"] * 1e6)
    assert got["memory"]["kv_capacity_users"] > 16
    assert got["grades"]["decode.tokens_per_s"]["grade"] == "D"
    assert got["grades"]["cost.usd_per_million_tokens"]["grade"] == "D"


def test_published_rates_of_70b_in_fp8(wse: Wse) -> None:
    """Anchors: 1,024 tokens in and out on eight H200 with TensorRT-LLM, 4 to 128 users; within 15 %."""
    anchors = {4: 160, 8: 149, 16: 130, 32: 107, 64: 74, 128: 46}
    machine = ("--gpu", "h200", "--gpus", 8, "--stack", "trtllm", "--dtype", "fp8")
    points = {row["users"]: row for row in result(wse, "llama-3.1-70b", *machine)["serving"]["points"]}
    for users, measured in anchors.items():
        assert points[users]["tokens_per_s_per_user"] == pytest.approx(measured, rel=0.15), users


def test_as_few_gpus_as_hold_the_model(wse: Wse) -> None:
    assert result(wse, "llama-3.1-70b", *H100)["system"]["gpus"] == 2
    assert result(wse, "deepseek-r1", "--gpu", "b200")["system"]["gpus"] == 4


def test_batch_that_does_not_fit_says_how_large_it_can_be(wse: Wse) -> None:
    refusal = wse("estimate", "llama-3-8b", *H100, "--batch", 1000).refusal()
    most = int(refusal.partition("give --batch ")[2].partition(",")[0])
    assert wse("estimate", "llama-3-8b", *H100, "--batch", most).code == 0
    assert wse("estimate", "llama-3-8b", *H100, "--batch", most + 1).code == 2


def test_users_of_a_batch_are_all_users_at_a_time(wse: Wse) -> None:
    lengths = ("--prompt-len", 64, "--new-tokens", 64)
    by_users, by_batch, by_both = (
        result(wse, "llama-3-8b", *H100, *lengths, *option)
        for option in (("--users", 8), ("--batch", 8), ("--users", 8, "--batch", 8))
    )
    assert by_users["serving"] == by_batch["serving"] == by_both["serving"]
    assert by_users["serving"]["users"] == 8
    assert by_users["cost"] == by_batch["cost"]
