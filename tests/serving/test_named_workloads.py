"""Workloads that are chosen by name: their numbers, and what they set in each command."""

from pathlib import Path
from typing import Any

import pytest

import wse
from wse.errors import BadInput, UnknownName
from wse.serving.named_workloads import load_workload, workload_names
from wse.studies.options.serving import WorkloadOptions

ON_GPUS: dict[str, Any] = {"model": "llama-3-8b", "gpu": "h100", "gpus": 1}
CHAT = (1_155, 211)


def test_each_number_has_a_source_and_assumptions_are_marked() -> None:
    assert workload_names() == ("chat", "summarize", "rag", "coding-agent", "voice")
    for name in workload_names():
        named = load_workload(name)
        assert len(named.sources) == 6
        assert 0 <= named.prefix_tokens < named.prompt_tokens
        for number in named.sources.values():
            assert number.source
            assert number.grade == "I" or not number.source.startswith("assumed")
    assert {number.grade for number in load_workload("voice").sources.values()} == {"I"}


def test_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'chat'"):
        wse.estimate("story", workload="chats")


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        (WorkloadOptions(), (1_024, 1_024)),
        (WorkloadOptions(workload_name="chat"), CHAT),
        (WorkloadOptions(workload_name="chat", prompt_len=7), (7, CHAT[1])),
        (WorkloadOptions(workload_name="chat", new_tokens=7), (CHAT[0], 7)),
    ],
)
def test_given_lengths_override_the_named_workload(options: WorkloadOptions, lengths: tuple[int, int]) -> None:
    assert options.with_named_lengths().lengths(8_192) == lengths


def test_estimate_and_compare_take_the_lengths() -> None:
    named, given = wse.estimate(**ON_GPUS, workload="chat"), wse.estimate(**ON_GPUS, prompt_len=CHAT[0], new_tokens=211)
    assert named.inputs == given.inputs | {"workload": "chat"}
    assert named.to_dict()["decode"] == given.to_dict()["decode"]
    placement: dict[str, Any] = {"mesh": "24x24", "mapping": "region", "schedule": "baseline", "wafers": "1"}
    compared = wse.compare("story", **placement, workload="voice", prompt_len=40, jobs=1)
    assert (compared.inputs["prompt_len"], compared.inputs["new_tokens"]) == (40, 60)
    with pytest.raises(BadInput, match="--workload coding-agent: --prompt-len 96300 --new-tokens 523: 96823 tokens"):
        wse.estimate("llama-3-8b", workload="coding-agent")
    with pytest.raises(BadInput, match="--workload chat: --lengths"):
        wse.compare("story", workload="chat", lengths="10/10", users=1)


def test_simulation_takes_lengths_spread_prefix_and_pauses() -> None:
    result = wse.serve_sim(**ON_GPUS, workload="rag", users=8, prefix_cache=True, requests=2_000)
    assert result.requests.prompt_tokens == pytest.approx(2_944, rel=0.03)
    assert result.requests.new_tokens == pytest.approx(283, rel=0.05)
    assert result.requests.think_s == 40
    # Each of 8 users sends a request every 40 s and the time of an answer.
    answer_s = result.served.all.ttft.mean + result.served.all.tpot.mean * (result.requests.new_tokens - 1)
    assert result.requests.rate_per_s == pytest.approx(8 / (40 + answer_s), rel=0.02)
    prefix_tokens = int(0.31 * 2_944) // 16 * 16
    assert result.served.prefix_cache.saved_tokens == pytest.approx(2_000 * prefix_tokens, rel=0.01)
    fixed = wse.serve_sim(**ON_GPUS, workload="rag", users=8, length_cv=0, think_time=0, prefix_tokens=16, requests=500)
    assert (fixed.requests.prompt_tokens, fixed.requests.new_tokens) == (2_944, 283)
    assert fixed.requests.think_s is None
    assert fixed.requests.rate_per_s > 10 * result.requests.rate_per_s


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"think_time": 3}, "--think-time: needs --users"),
        ({"think_time": -1, "users": 2}, "--think-time -1"),
        ({"workload": "chat", "arrivals": "trace.csv"}, "--workload chat: trace.csv says"),
    ],
)
def test_options_without_effect_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        wse.serve_sim("story", **changes)


def test_page_on_assumptions_has_the_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "assumptions.md").read_text(encoding="utf-8")
    for name in workload_names():
        named = load_workload(name)
        lengths = f"{named.prompt_tokens:,} | {named.new_tokens:,}"
        assert f"| {name} | {lengths} | {named.think_s:g} s | {named.prefix_share:.0%}".replace("%", " %") in page
