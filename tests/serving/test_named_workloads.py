"""Tests of workloads that are selected by name: their numbers, their sources, and what they set in each command."""

from pathlib import Path
from typing import Any

import pytest

import wse
from tests.models.helpers import write_config
from wse.errors import BadInput, UnknownName
from wse.serving.named_workloads import load_workload, workload_names
from wse.serving.simulation.kv.prefixes import path_to
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.serving import GpuOptions, ServingOptions, WorkloadOptions
from wse.studies.serve_sim.options import BatchingOptions, TrafficOptions
from wse.studies.serve_sim.prepare import prepare_serve
from wse.studies.serve_sim.request import ServeRequest

ON_GPUS: dict[str, Any] = {"model": "llama-3-8b", "gpu": "h100", "gpus": 1}
CHAT = (1_155, 211)


def test_each_number_has_a_source_and_assumptions_are_marked() -> None:
    assert workload_names() == ("chat", "summarize", "rag", "coding-agent", "voice")
    for name in workload_names():
        named = load_workload(name)
        assert len(named.sources) == 6
        assert 0 <= named.prefix_tokens(named.prompt_tokens) < named.prompt_tokens
        for number in named.sources.values():
            assert number.source
            assert number.grade == "I" or not number.source.startswith("assumed")
    assert {name for name in workload_names() if load_workload(name).prefix_scope == "session"} == {
        "chat",
        "coding-agent",
    }
    assert load_workload("chat").prefix_tokens(100) == 33
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


def test_estimate_and_compare_use_the_lengths(tmp_path: Path) -> None:
    named, given = wse.estimate(**ON_GPUS, workload="chat"), wse.estimate(**ON_GPUS, prompt_len=CHAT[0], new_tokens=211)
    assert named.inputs == given.inputs | {"workload": "chat"}
    assert named.to_dict()["decode"] == given.to_dict()["decode"]
    placement: dict[str, Any] = {"mesh": "6x5", "mapping": "region", "schedule": "baseline", "wafers": "1"}
    model = write_config(tmp_path, max_position_embeddings=128)
    compared = wse.compare(model, **placement, workload="voice", prompt_len=40, jobs=1)
    assert (compared.inputs["prompt_len"], compared.inputs["new_tokens"]) == (40, 60)
    with pytest.raises(BadInput, match="--workload coding-agent: --prompt-len 96300 --new-tokens 523: 96,823 tokens"):
        wse.estimate("llama-3-8b", workload="coding-agent")
    with pytest.raises(BadInput, match="--workload chat: --lengths"):
        wse.compare("story", workload="chat", lengths="10/10", users=1)


def test_simulation_uses_lengths_spread_prefix_and_pauses() -> None:
    result = wse.serve_sim(**ON_GPUS, workload="rag", users=8, prefix_cache=True, requests=400)
    assert result.requests.prompt_tokens == pytest.approx(2_944, rel=0.03)
    assert result.requests.new_tokens == pytest.approx(283, rel=0.05)
    assert result.requests.think_s == 40
    # Each of 8 users sends a request every 40 s on average plus the time of an answer.
    answer_s = result.served.all.ttft.mean + result.served.all.tpot.mean * (result.requests.new_tokens - 1)
    assert result.requests.rate_per_s == pytest.approx(8 / (40 + answer_s), rel=0.1)
    prefix_tokens = round(0.31 * 2_944) // 16 * 16
    assert result.served.prefix_cache.saved_tokens == pytest.approx(400 * prefix_tokens, rel=0.01)
    unshared = wse.serve_sim(**ON_GPUS, workload="rag", users=8, prefix_cache=True, prefix_tokens=0, requests=100)
    assert unshared.served.prefix_cache.saved_tokens == 0
    fixed = wse.serve_sim(**ON_GPUS, workload="rag", users=8, length_cv=0, think_time=0, prefix_tokens=16, requests=100)
    assert (fixed.requests.prompt_tokens, fixed.requests.new_tokens) == (2_944, 283)
    assert fixed.requests.think_s is None
    assert fixed.requests.rate_per_s > 10 * result.requests.rate_per_s


@pytest.mark.parametrize(
    ("name", "changes", "texts"),
    [
        ("coding-agent", {}, 40),
        ("coding-agent", {"prefixes": 3}, 3),
        ("coding-agent", {"prefix_tokens": 50_000}, 40),
        ("coding-agent", {"prefix_tokens": 90_000}, 40),  # more than the mean of the prompts that fit in the context
        ("rag", {}, 1),
        ("rag", {"prefixes": 3}, 3),
    ],
)
def test_prefix_is_per_session_or_shared_by_the_service(name: str, changes: dict[str, int], texts: int) -> None:
    traffic = {"prefixes": changes["prefixes"]} if "prefixes" in changes else {}
    base = EstimateRequest(
        model="llama-3.1-8b",
        gpu="h100",
        gpu_serving=GpuOptions(gpus=1),
        workload=WorkloadOptions(workload_name=name, prefix_tokens=changes.get("prefix_tokens")),
        serving=ServingOptions(users=40),
    )
    traffic_options, batches = TrafficOptions(requests=1_000, **traffic), BatchingOptions(prefix_cache=True)
    request = ServeRequest(base=base, traffic=traffic_options, batches=batches)
    work = prepare_serve(request).workload
    assert len({path_to(block, work.prefix_tree.parent.tolist())[0] for block in work.prefix.tolist()}) == texts
    mean_share = changes.get("prefix_tokens", 913 if name == "rag" else 92_448) / load_workload(name).prompt_tokens
    assert work.prefix_tokens.sum() / work.prompt_tokens.sum() == pytest.approx(mean_share, rel=0.03)
    assert (len(set(work.prefix_tokens.tolist())) == 1) == (name == "rag")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"think_time": 3}, "--think-time: needs --users"),
        ({"think_time": -1, "users": 2}, "--think-time -1"),
        ({"workload": "chat", "prompt_len": 200, "prefix_cache": True}, "as --users or --prefixes"),
        ({"workload": "chat", "arrivals": "trace.csv"}, "--workload chat: trace.csv already defines"),
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
