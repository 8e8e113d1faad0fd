"""Tests of `serve_sim`: load and stability, prefill machines, drafts, arrival files, output files, replicas."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wse
from wse.errors import BadInput
from wse.reports.number_text import count
from wse.serving.simulation.capacity import suggested_rate
from wse.studies.estimate.layouts.choose_layout import ChosenLayout
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.serve_sim.machines import layouts

STORY: dict[str, Any] = {
    "model": "story",
    "mesh": "24x24",
    "mapping": "region",
    "schedule": "baseline",
    "prompt_len": 64,
    "new_tokens": 64,
    "requests": 800,
}


def test_default_load_is_70_percent_of_the_capacity() -> None:
    result = wse.serve_sim(**STORY)
    assert result.load.stable
    assert result.load.offered == pytest.approx(0.7)
    assert result.requests.rate_per_s == pytest.approx(0.7 * result.load.capacity_requests_per_s)
    assert result.served.tokens_per_s == pytest.approx(64 * result.requests.rate_per_s, rel=0.05)
    assert result.served.little.in_system == pytest.approx(result.served.little.by_law)


def test_verdict_states_whether_room_for_kv_caches_limits_the_capacity() -> None:
    result = wse.serve_sim(**STORY | {"requests": 50})
    machine, served = replace(result.machine, stages=2, kv_capacity_users=5), result.served
    for busy, slots, limited in ((0.35, 5, True), (0.65, 5, False), (0.35, 4, False)):
        use = replace(served.use, slowest_stage=busy, most_users=slots)
        verdict = replace(result, machine=machine, served=replace(served, use=use)).verdict
        assert (
            "The capacity is limited by the 5 KV caches for which there is room" in verdict and "only 50 %" in verdict
        ) == limited


@pytest.mark.parametrize(("load", "replicas"), [(1.8, 2), (1.81, 3)])
def test_overloaded_service_suggests_a_stable_rate_and_the_replicas_for_its_rate(load: float, replicas: int) -> None:
    result = wse.serve_sim(**STORY | {"requests": 50}, load=load)
    capacity, rate = result.load.capacity_requests_per_s, result.requests.rate_per_s
    assert rate is not None
    assert result.load.stable_requests_per_s == 0.9 * capacity
    assert result.load.replicas_needed == replicas
    assert result.served is None
    assert "Overloaded" in result.verdict
    assert rate / replicas <= 0.9 * capacity * (1 + 1e-9) < rate / (replicas - 1)
    in_all = f"--replicas {replicas}` ({replicas} wse3 wafers in total) instead of --load, for a load of at most 0.9 "
    assert in_all in result.verdict
    replica = wse.serve_sim(**STORY | {"requests": 50}, rate=rate / replicas)
    assert replica.load.stable
    assert replica.load.offered <= 0.9 * (1 + 1e-9)


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_overloaded_service_suggests_the_default_objective(objective: str) -> None:
    verdict = wse.serve_sim(**STORY | {"requests": 50}, load=1.5, objective=objective).verdict
    assert ("leave out `--objective latency`" in verdict) == (objective == "latency")


def test_rate_that_needs_too_many_replicas_is_refused_with_a_rate_that_is_not() -> None:
    with pytest.raises(BadInput, match="at most 10,000 are simulated") as refusal:
        wse.serve_sim(**STORY, rate=1e9, replicas="auto")
    rate = float(str(refusal.value).rpartition(" ")[2])
    capacity = wse.serve_sim(**STORY).load.capacity_requests_per_s
    assert math.ceil(rate / capacity / 0.9) == 10_000


@pytest.mark.parametrize(
    ("options", "remedies"), [({}, ["--rate", "--replicas"]), ({"batching": "static", "max_users": 4}, ["--rate"])]
)
def test_overloaded_service_suggests_only_options_that_it_accepts(options: dict[str, Any], remedies: list[str]) -> None:
    """The options of each suggested command are accepted, and the queue is then stable."""
    request = STORY | {"requests": 50} | options
    verdict = wse.serve_sim(**request, load=1.5).verdict
    commands = re.findall("`(.*?)`", verdict)
    assert [command.split()[0] for command in commands] == remedies[:1] * len(commands)
    assert set(re.findall("--[a-z]+", verdict)) == {*remedies, "--load"}
    for command in commands:
        words = command.split()
        given = {name[2:]: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}
        replicas = {"replicas": int(given.pop("replicas"))} if "replicas" in given else {}
        assert wse.serve_sim(**request, **given, **replicas).load.offered <= 0.9 * 1.0001  # rates are rounded


@pytest.mark.parametrize(
    ("options", "arrivals", "in_flight", "rate_of_users"),
    [
        ({"users": 2}, "constant", 2, 2),
        ({"users": 2, "arrivals": "poisson"}, "poisson", None, 2),
        ({"rate": 1.0}, "poisson", None, None),
        ({}, "poisson", None, None),
    ],
)
def test_users_are_simulated_in_a_closed_loop_by_default(
    options: dict[str, Any], arrivals: str, in_flight: int | None, rate_of_users: int | None
) -> None:
    result = wse.serve_sim(**STORY | {"requests": 50} | options)
    requests = result.requests
    assert (requests.arrivals, requests.in_flight, requests.rate_of_users) == (arrivals, in_flight, rate_of_users)
    assert ("load" in result.inputs) == (rate_of_users is None and "rate" not in options)


@pytest.mark.parametrize(("requests", "is_short"), [(24, True), (800, False)])
def test_few_requests_per_user_are_said_to_leave_the_machine_partly_idle(requests: int, *, is_short: bool) -> None:
    users = 4
    result = wse.serve_sim(**STORY | {"requests": requests}, users=users)
    served = result.served
    waits = served.all
    request_s = waits.ttft.mean + 63 * waits.tpot.mean  # all answers have 64 tokens
    assert served.use.in_flight == pytest.approx(requests * request_s / served.makespan_s)
    assert (served.use.in_flight < 0.98 * users) == is_short
    texts = {row["name"]: str(row) for table in result.tables() for row in table.rows if "name" in row}
    assert ("in flight" in texts) == is_short
    assert (f"with {count(served.use.in_flight)} requests in flight instead of 4" in texts["cost"]) == is_short


def test_goodput_counts_requests_within_the_ttft_limit() -> None:
    served = wse.serve_sim(**STORY, load=0.9).served
    limit = served.all.ttft.p90
    goodput = wse.serve_sim(**STORY, load=0.9, ttft=limit).served
    assert goodput.goodput.share == pytest.approx(0.9, abs=0.01)
    assert goodput.goodput.tokens_per_s == pytest.approx(0.9 * served.tokens_per_s, rel=0.02)


GPUS: dict[str, Any] = {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 512, "new_tokens": 128, "requests": 500}


@pytest.mark.parametrize("service", [STORY, GPUS], ids=["wafers", "gpus"])
def test_separate_prefill_machine_reduces_gaps_and_doubles_the_cost(service: dict[str, Any]) -> None:
    same = wse.serve_sim(**service)
    own = wse.serve_sim(**service, prefill="own", rate=same.requests.rate_per_s)
    on_gpus = service is GPUS
    assert (same.machine.gpus, same.machine.wafers) == ((1, None) if on_gpus else (None, 1))
    assert ("1 h100 GPU" in same.title) == on_gpus
    assert own.prefill_machine is not None
    assert own.served.gaps.most < same.served.gaps.most
    assert own.served.use.prefill_busy is not None
    ratio = own.served.usd_per_million_tokens.value / same.served.usd_per_million_tokens.value
    assert ratio == pytest.approx(2, rel=0.05)


MIXED: dict[str, Any] = {"model": "story", "dtype": "float16", "prompt_len": 256, "new_tokens": 64, "requests": 500}


@pytest.mark.parametrize("decoder", ["wafers", pytest.param("gpus", marks=pytest.mark.slow)])
def test_prefill_on_another_type_of_machine(decoder: str) -> None:
    """TTFT is that of the prefill machine, TPOT that of the decode machine, and the cost is that of both."""
    wafers: dict[str, Any] = {"mesh": "24x24", "mapping": "region", "schedule": "baseline"}
    link = {"kv_bandwidth": 100.0, "kv_latency": 8.0} if decoder == "wafers" else {}
    if decoder == "wafers":
        mixed = wse.serve_sim(**(MIXED | wafers), prefill="own", prefill_gpu="h100", prefill_gpus=2, rate=50.0, **link)
        prefill_only, decode_only = (
            wse.serve_sim(**MIXED, gpu="h100", gpus=2, rate=0.1),
            wse.serve_sim(**MIXED, **wafers, rate=0.1),
        )
        names = ("24x24", "h100")
    else:
        mixed = wse.serve_sim(**MIXED, gpu="h100", prefill="own", prefill_wafer="wse3", rate=50.0)
        prefill_only, decode_only = (
            wse.serve_sim(**MIXED, objective="latency", rate=0.1),
            wse.serve_sim(**MIXED, gpu="h100", rate=0.1),
        )
        names = ("h100", "wse3")
    assert (mixed.machine.gpus is None) == (decoder == "wafers")
    assert (mixed.prefill_machine.gpus is None) == (decoder == "gpus")
    assert names[1] in mixed.title
    assert mixed.served.all.ttft.p50 == pytest.approx(prefill_only.served.all.ttft.p50, rel=0.15)
    # tokens of a wafer travel to the host, and those of a GPU do not, so this path separates the first two tokens
    host_s = 500e-6 if decoder == "wafers" else -500e-6
    between = (host_s + mixed.kv_transfer.prompt_s) / 63
    assert mixed.served.all.tpot.p50 == pytest.approx(decode_only.served.all.tpot.p50 + between, rel=0.05)
    both = sum(one.served.usd_per_million_tokens.value * one.served.tokens_per_s for one in (prefill_only, decode_only))
    assert mixed.served.usd_per_million_tokens.value * mixed.served.tokens_per_s == pytest.approx(both)
    ranges = zip(*(one.served.usd_per_hour.range for one in (prefill_only, decode_only)), strict=True)
    assert mixed.served.usd_per_hour.range == pytest.approx([*map(sum, ranges)])
    transfer = mixed.kv_transfer
    # the second pair is the default link of a wafer
    assert (transfer.bytes_per_s, transfer.latency_s) == ((100e9, 8e-6) if link else (150e9, 5e-6))
    assert transfer.bytes_per_token == 5 * 2 * 64 * 2  # layers, keys and values, features of all KV heads, bytes
    assert transfer.prompt_s == pytest.approx(
        transfer.latency_s + 256 * transfer.bytes_per_token / transfer.bytes_per_s
    )


def test_drafts_deliver_tokens_in_bursts_once_per_pass() -> None:
    """TPOT of a single user is the time of a pass over four tokens and of its draft, over the tokens per pass."""
    served = wse.serve_sim(**GPUS, rate=0.01, draft="0.9,0.8,0.7", draft_tokens=3)
    drafts, estimate = (
        served.drafts,
        wse.estimate("llama-3-8b", gpu="h100", prompt_len=512, new_tokens=128, draft="0.9"),
    )
    assert drafts.tokens_per_pass == pytest.approx(1 + 0.9 + 0.72 + 0.504)
    assert estimate.drafts.lengths[2].verify_s == pytest.approx(drafts.verify_s)
    # fewer, because tokens after the end of an answer are dropped
    assert served.served.tokens_per_pass == pytest.approx(drafts.tokens_per_pass, rel=0.03)
    pass_s = drafts.verify_s + drafts.draft_s
    assert served.served.all.tpot.mean == pytest.approx(pass_s / served.served.tokens_per_pass, rel=0.02)
    assert served.served.gaps.p50 == 0
    assert served.served.gaps.p90 == pytest.approx(pass_s, rel=0.02)
    assert served.inputs["draft_tokens"] == 3


@pytest.mark.parametrize(
    ("options", "room"),
    [
        ({"draft": "0.9,0.8"}, {"plain": 149, "drafted": 120}),
        ({"draft": "0.1"}, {"plain": 149, "drafted": 149}),
    ],
    ids=["head", "drafts do not pay"],
)
def test_estimates_and_simulations_have_the_same_room_with_drafts(
    options: dict[str, Any], room: dict[str, int]
) -> None:
    """A draft head stores weights and KV caches of one more layer, if drafts are used."""
    given = STORY | {"prompt_len": 8, "new_tokens": 24, "software": "tuned", "wafer": "wse2", "objective": "latency"}
    del given["requests"]
    result = wse.estimate(**given | options)
    served = wse.serve_sim(**given | options, requests=20)
    assert (result.serving.max_users, result.drafts.max_users) == (room["plain"], room["drafted"])
    assert served.machine.kv_capacity_users == room["drafted"]


def test_draft_head_reduces_the_room_for_kv_caches_on_gpus() -> None:
    """A draft head stores the weights and KV caches of one more layer. It is not loaded if drafts do not pay."""
    plain, drafted, without_gain = (
        wse.serve_sim(**GPUS | {"requests": 9} | options).machine.kv_capacity_tokens
        for options in ({}, {"draft": "0.9,0.8"}, {"draft": "0.01"})
    )
    weights, token = 436_224_000, 131_072
    assert drafted == pytest.approx((plain * token - weights) / (token * 33 / 32), abs=1)
    assert without_gain == plain


@pytest.mark.slow
def test_draft_model_on_its_own_wafer_is_counted_in_the_cost() -> None:
    """A draft model on a second wafer doubles the number of wafers and, at nearly the same speed, the cost."""
    options = STORY | {"mesh": "96x96", "rate": 20.0, "draft": "0.95,0.9,0.9", "draft_model": "story-draft"}
    same_wafer, own_wafer = (wse.serve_sim(**options, draft_tokens=2, draft_place=place) for place in ("same", "wafer"))
    assert (same_wafer.drafts.wafers, own_wafer.drafts.wafers) == (0, 1)
    assert (same_wafer.machine.wafers, own_wafer.machine.wafers) == (1, 2)
    assert (same_wafer.drafts.region.rows, same_wafer.drafts.region.cols) == (96, 96)
    assert own_wafer.drafts.acceptance_by_position == (0.95, 0.9, 0.9)
    cost, doubled_cost = (one.served.usd_per_million_tokens.value for one in (same_wafer, own_wafer))
    assert doubled_cost == pytest.approx(2 * cost, rel=0.02)


def test_prefix_cache_reduces_ttft_and_raises_the_capacity() -> None:
    options = STORY | {"prompt_len": 256, "rate": 200.0}
    plain, cached = (wse.serve_sim(**options, prefix_tokens=prefix_tokens) for prefix_tokens in (0, 240))
    assert cached.served.prefix_cache.hits > 746
    assert cached.served.all.ttft.p50 < 0.7 * plain.served.all.ttft.p50
    assert cached.load.capacity_requests_per_s > plain.load.capacity_requests_per_s


def test_file_of_arrivals_is_simulated_even_if_overloaded(tmp_path: Path) -> None:
    rows = "".join(f"{at / 1e4},{20 + at % 7},{9 + at % 5}\n" for at in range(200))
    path = tmp_path / "arrivals.csv"
    path.write_text("arrival_s,prompt_tokens,new_tokens\n" + rows)
    placement = {key: STORY[key] for key in ("model", "mesh", "mapping", "schedule")}
    result = wse.serve_sim(**placement, arrivals=path, max_users=1, objective="latency")
    assert not result.load.stable
    assert result.served.all.requests == result.requests.count == 200
    assert result.inputs["context"] == 26 + 13


def test_trace_is_shortened_and_scaled_in_time(tmp_path: Path) -> None:
    """All prompts share the first block. Of four requests, the second is too long and the fourth has no answer."""
    lines = [
        {"timestamp": 100 * at, "input_length": (600, 3_000, 700, 700)[at % 4], "output_length": (9, 9, 5, 0)[at % 4]}
        for at in range(160)
    ]
    blocks = {600: [0, 1], 700: [0, 2], 3_000: [0, 3, 4, 5, 6, 7]}
    path = tmp_path / "trace.txt"
    path.write_text("".join(json.dumps(line | {"hash_ids": blocks[line["input_length"]]}) + "\n" for line in lines))
    options: dict[str, Any] = {"model": "gpt2", "gpu": "h100", "arrivals": path}
    options |= {"too_long": "skip", "prefix_cache": True}
    full = wse.serve_sim(**options)
    assert (full.requests.count, full.requests.too_long, full.requests.without_answer) == (80, 40, 40)
    assert full.requests.trace_format == "Mooncake JSONL"
    assert full.requests.rate_per_s == pytest.approx(79 / 15.8)
    assert (full.served.prefix_cache.hits, full.served.prefix_cache.saved_tokens) == (79, 79 * 512)
    assert full.served.prefix_cache.saved_share == pytest.approx(79 * 512 / (40 * 1_300))
    fast, cut = wse.serve_sim(**options, time_scale=0.5), wse.serve_sim(**options, rate=40, requests=11)
    assert fast.requests.rate_per_s == pytest.approx(2 * 79 / 15.8)
    assert (cut.requests.count, cut.requests.rate_per_s) == (11, pytest.approx(40))


@pytest.mark.parametrize("changes", [{"requests": 1}, {"requests": 5, "arrivals": "bursts"}])
def test_requests_without_a_rate_are_served(changes: dict[str, Any]) -> None:
    result = wse.serve_sim(**STORY | changes)
    assert result.served.all.requests == changes["requests"]
    assert result.served.all.queueing.most < 1e-3


@pytest.mark.parametrize("users", [None, 7])
def test_timeline_and_page_contain_the_served_requests(tmp_path: Path, users: int | None) -> None:
    timeline, page = tmp_path / "t.json", tmp_path / "p.html"
    changes = {"requests": 300} if users is None else {"requests": 300, "users": users, "replicas": 3}
    result = wse.serve_sim(**STORY | changes, timeline=timeline, html=page)
    assert (result.timeline, result.page) == (str(timeline), str(page))
    events = json.loads(timeline.read_text())["traceEvents"]
    answers = [event for event in events if event["name"] == "answer"]
    assert len(answers) == 300
    assert {event["args"]["new_tokens"] for event in answers} == {64}
    lanes: dict[int, float] = {}
    for event in (event for event in events if event["ph"] == "X"):
        assert event["ts"] >= lanes.get(event["tid"], 0.0) - 1e-3
        lanes[event["tid"]] = event["ts"] + event["dur"]
    text = page.read_text()
    assert "Requests over time" in text
    assert result.verdict in text


def test_replicas_share_the_requests_and_add_to_the_cost() -> None:
    one, three = (wse.serve_sim(**STORY, rate=400, replicas=replicas) for replicas in (1, 3))
    assert three.replicas == 3
    assert three.load.capacity_requests_per_s == pytest.approx(3 * one.load.capacity_requests_per_s)
    assert three.served.use.users < one.served.use.users
    assert three.served.use.most_users == 3 * one.served.use.most_users
    assert three.served.usd_per_hour.value == pytest.approx(3 * one.served.usd_per_hour.value)


def test_auto_replicas_are_the_minimum_with_a_stable_queue() -> None:
    capacity = wse.serve_sim(**STORY).load.capacity_requests_per_s
    result = wse.serve_sim(**STORY, rate=2.6 * capacity, replicas=None)
    assert result.replicas == 3
    assert result.load.offered == pytest.approx(2.6 / 3)


def test_auto_replicas_exceed_one_if_users_with_pauses_saturate_it() -> None:
    load: dict[str, Any] = STORY | {"users": 200, "think_time": 0.001, "requests": 300, "objective": "latency"}
    one, auto = (wse.serve_sim(**load, replicas=replicas) for replicas in (1, None))
    assert one.served.use.busy > 0.99
    assert auto.replicas > 1


def test_auto_replicas_are_the_minimum_with_room_for_the_users() -> None:
    room = wse.estimate(**{k: v for k, v in STORY.items() if k != "requests"}).serving.max_users
    load: dict[str, Any] = {"users": 2 * room + 1, "arrivals": "constant"}
    options: dict[str, Any] = {**STORY, "wafers": 1, "objective": "latency", **load}
    result = wse.serve_sim(**options, replicas=None)
    assert result.replicas in (2, 3)  # layouts with shorter prompt chunks have more room than the fastest one
    with pytest.raises(BadInput):
        wse.serve_sim(**options, replicas=result.replicas - 1)


def test_users_with_requests_of_different_lengths_are_all_in_flight() -> None:
    result = wse.serve_sim(**STORY | {"users": 5, "length_cv": 1.0, "requests": 1_000})
    assert result.served.little.in_system == pytest.approx(5, rel=0.06)
    assert result.requests.rate_per_s == pytest.approx(result.served.tokens_per_s / result.requests.new_tokens)


def test_layout_for_users_who_pause_is_for_those_in_flight() -> None:
    load = STORY | {"users": 40, "requests": 300}
    result = wse.serve_sim(**load, think_time=0.1)
    assert result.machine.layout_users == pytest.approx(result.served.little.in_system, abs=1)
    assert 1 < result.machine.layout_users < 40
    assert wse.serve_sim(**load, think_time=10).machine.layout_users == 1


def test_machine_depends_neither_on_the_number_of_random_requests_nor_on_the_seed() -> None:
    lengths = STORY | {"length_cv": 1.0}
    result, other = wse.serve_sim(**lengths | {"requests": 50}), wse.serve_sim(**lengths, seed=7)
    assert result.machine == other.machine
    assert result.requests.prompt_tokens != other.requests.prompt_tokens


@pytest.mark.parametrize(("length_cv", "is_simulated"), [(1.0, True), (0.0, False)])
def test_capacity_of_layouts_is_simulated_if_lengths_differ(
    monkeypatch: pytest.MonkeyPatch, length_cv: float, *, is_simulated: bool
) -> None:
    capacities = list[float]()

    def choose(prepared_estimate: PreparedEstimate, capacity_of: Callable[[ChosenLayout], float]) -> ChosenLayout:
        """Simulate the layout that suits equal lengths, and return it."""
        layout = layouts.choose_layout(prepared_estimate)
        capacities.append(capacity_of(layout))
        return layout

    monkeypatch.setattr(layouts, "choose_layout_by_capacity", choose)
    result = wse.serve_sim(**STORY | {"length_cv": length_cv, "requests": 2_000})
    assert capacities == ([result.load.capacity_requests_per_s] if is_simulated else [])


@pytest.mark.parametrize("changes", [{"burst": 4}, {"users": 2, "replicas": 3, "think_time": 1.0}])
def test_option_without_an_effect_or_without_users_for_each_replica_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        wse.serve_sim(**STORY | changes)


def test_drafts_are_left_out_if_nothing_is_decoded() -> None:
    one_token = {"model": "llama-3-8b", "gpu": "h100", "new_tokens": 1, "requests": 50}
    plain, drafted = wse.serve_sim(**one_token), wse.serve_sim(**one_token, draft="typical")
    assert drafted.drafts is None
    assert drafted.machine.kv_capacity_users == plain.machine.kv_capacity_users


def test_suggested_rate_is_positive_and_not_above_the_stable_rate() -> None:
    for rate in (12345.678, 12.3456, 0.0012389):
        assert 0 < float(f"{suggested_rate(rate):.10g}") <= rate
    assert suggested_rate(12.3456) == pytest.approx(12.34)
    assert suggested_rate(0.0012389) == pytest.approx(0.00123)
