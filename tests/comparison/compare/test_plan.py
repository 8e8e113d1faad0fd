"""Machines that are ranked for users and limits: replicas, the order, what misses the limits, and what is refused."""

from __future__ import annotations

import itertools
import math

import pytest

import wse
from tests.comparison.compare.synthetic import deployment, usd
from wse.errors import BadInput, DoesNotFit
from wse.reports.terminal import seconds
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.plan import plan
from wse.studies.compare.machine import GPU, WAFER, Kind
from wse.studies.compare.plan.result import PlannedRow, PlanResult
from wse.studies.compare.plan.study import counts_near, planned_row, with_pareto
from wse.studies.compare.plan.verdict import plan_verdict

SMALL = {"mesh": "16x16", "wafers": [1, 2], "mapping": "region,bands", "schedule": "baseline", "jobs": 1}
LENGTHS = {"prompt_len": 8, "new_tokens": 8}


def ranked(**options: object) -> PlanResult:
    result = wse.compare("story", **{**SMALL, **LENGTHS, **options})
    assert isinstance(result, PlanResult)
    return result


@pytest.fixture(scope="module")
def of_many() -> PlanResult:
    """Machines for 400 users, without limits."""
    return ranked(users=400)


def made_row(kind: Kind, base_s: float, goal: Goal, **settings: float | tuple[float, float] | None) -> PlannedRow:
    """Return the row of a machine whose operating points are known in closed form."""
    machine = deployment(base_s, kind=kind, **settings)  # type: ignore[arg-type]
    found = plan(machine, goal)
    assert found is not None
    return planned_row(machine, found, kind=kind, name=kind, software="s", dtype="fp8")


@pytest.mark.parametrize(
    ("goal", "users", "replicas", "meets"),
    [
        (Goal(users=100, replicas=None, tpot_s=0.02, objective=COST), 100, 10, True),  # 10 users: 10 ms + 10 * 1 ms
        (Goal(users=101, replicas=None, tpot_s=0.02, objective=COST), 101, 11, True),
        (Goal(users=100, replicas=None, objective=COST), 100, 2, True),  # 50 have room
        (Goal(users=100, replicas=1, objective=COST), 50, 1, False),
        (Goal(users=100, replicas=3, tpot_s=0.02, objective=COST), 100, 3, False),
        (Goal(users=100, replicas=None, tpot_s=0.0109, objective=COST), 1, 1, False),
        (Goal(tpot_s=0.02, objective=COST), 10, 1, True),
        (Goal(objective=COST), 31, 1, True),  # saturated from 31 on
        (Goal(objective=LATENCY), 1, 1, True),
    ],
)
def test_replicas_are_the_fewest_that_keep_the_limits(goal: Goal, users: int, replicas: int, meets: bool) -> None:  # noqa: FBT001
    machine = deployment(0.01, 0.001 * (1 - 1e-9), room=50, saturated_from=31)
    found = plan(machine, goal)
    assert found is not None
    assert (found.point.concurrency, found.point.replicas, found.meets) == (users, replicas, meets)
    if meets and goal.tpot_s is not None:
        assert (found.point.tpot_s or 0.0) <= goal.tpot_s
    cost = found.point.usd_per_million_tokens
    assert cost is not None
    full, rest = divmod(users, replicas)
    per_machine = [full + 1] * rest + [full] * (replicas - rest)
    rate = sum(1 / usd(0.01, 0.001, one) for one in per_machine)  # proportional to tokens/s
    assert cost.value == pytest.approx(replicas / rate, rel=1e-6)


@pytest.mark.parametrize("best", [4, 5, 7, 13, 23, 31, 32])
def test_numbers_of_wafers_close_in_on_the_best(best: int) -> None:
    """From multiples of 4, numbers are tried until the neighbours of the best are within an eighth of it."""
    tried = {4, 8, 16, 32}
    while counts := counts_near(min(tried, key=lambda count: abs(count - best)), tried):
        assert tried.isdisjoint(counts)
        tried |= {*counts}
    assert min(abs(count - best) for count in tried) <= max(1, best // 8)
    assert len(tried) <= 4 + 2 * 4


def test_all_machines_are_the_cheapest_first_and_of_the_fewest_replicas(of_many: PlanResult) -> None:
    assert (of_many.tried, of_many.keeping) == (4, 4)
    assert [row.users for row in of_many.rows] == [400] * 4
    costs = [row.usd_per_million_tokens or math.inf for row in of_many.rows]
    assert costs == sorted(costs)
    for row in of_many.rows:
        alone = row.max_users // row.replicas
        assert row.replicas == math.ceil(400 / alone)
        chips = row.replicas * row.chips
        assert row.usd_per_million_tokens == pytest.approx(chips * 64.45 / 3600 / row.tokens_per_s * 1e6)
        assert (row.usd_per_million_tokens_low or 0.0) < (row.usd_per_million_tokens_high or 0.0)
        assert row.tokens_per_s_per_user == pytest.approx(1 / (row.tpot_s or math.inf))
    best = of_many.rows[0]
    assert of_many.verdict[0].startswith(
        f"8 + 8 tokens: 4 of 4 machines serve 400 users; the cheapest per token is {best.machine} ("
    )
    assert f"{best.usd_per_million_tokens:.2f} USD (" in of_many.verdict[0]


def test_rows_that_keep_the_limits_come_before_the_others(of_many: PlanResult) -> None:
    limit = sorted(row.ttft_s for row in of_many.rows)[1] * 1.001
    result = ranked(users=400, replicas=1, ttft=limit)
    keeps = [row.users == 400 and row.ttft_s <= limit for row in result.rows]
    assert [row.keeps for row in result.rows] == keeps == sorted(keeps, reverse=True)
    assert result.keeping == sum(keeps)
    assert result.targets == {"ttft_s": limit}
    for row in result.rows:
        assert (row.excess <= 1) == row.keeps
    excesses = [row.excess for row in result.rows if not row.keeps]
    assert excesses == sorted(excesses)


def test_a_limit_takes_more_replicas_and_is_kept(of_many: PlanResult) -> None:
    limited = ranked(users=400, ttft="5ms")
    free = {(row.chips, row.software): row for row in of_many.rows}
    assert limited.keeping == 4
    for row in limited.rows:
        assert row.ttft_s <= 5e-3
        assert row.replicas >= free[row.chips, row.software].replicas
    assert any(row.replicas > free[row.chips, row.software].replicas for row in limited.rows)


@pytest.mark.slow
def test_without_users_a_limit_is_kept_by_as_many_as_it_leaves() -> None:
    free, limited = ranked(objective="cost", top=100), ranked(ttft="1ms")
    most = {(row.chips, row.software): row.users for row in free.rows}
    for row in limited.rows:
        assert row.keeps
        assert row.ttft_s <= 1e-3
        assert 1 <= row.users <= most[row.chips, row.software]
    costs = [row.usd_per_million_tokens or math.inf for row in limited.rows]
    assert costs == sorted(costs)


def test_without_users_and_limits_one_user_decides() -> None:
    result = ranked(top=3)
    assert (result.tried, len(result.rows)) == (4, 3)
    assert all(row.users == 1 and row.keeps for row in result.rows)
    requests_s = [row.ttft_s + 7 * (row.tpot_s or 0.0) for row in result.rows]
    assert requests_s == sorted(requests_s)
    (sentence,) = result.verdict
    assert sentence.startswith(f"8 + 8 tokens: the fastest of 4 machines for one user is {result.rows[0].machine} (")
    assert ("...", "1 machine of 4 not shown") in result.tables()[1].footer


@pytest.mark.slow
def test_the_objective_decides_the_order(of_many: PlanResult) -> None:
    by_rate = ranked(users=400, objective=THROUGHPUT)
    rates = [row.tokens_per_s for row in by_rate.rows]
    assert rates == sorted(rates, reverse=True)
    assert "the one with the most throughput is" in by_rate.verdict[0]
    by_latency = ranked(users=400, objective=LATENCY)
    requests_s = [row.ttft_s + 7 * (row.tpot_s or 0.0) for row in by_latency.rows]
    assert requests_s == sorted(requests_s)
    assert "the fastest is" in by_latency.verdict[0]
    assert of_many.inputs["objective"] == COST
    alone = ranked(objective=COST)
    costs = [row.usd_per_million_tokens or math.inf for row in alone.rows]
    assert costs == sorted(costs)
    machine = alone.rows[0].machine
    assert alone.verdict[0].startswith(f"8 + 8 tokens: the cheapest per token of 4 machines is {machine} (")


@pytest.mark.slow
def test_the_front_has_what_no_row_surpasses(of_many: PlanResult) -> None:
    front = {row for row in of_many.rows if row.pareto}
    assert front == set(ranked(users=400, pareto=True).rows)
    for one, other in itertools.permutations(of_many.rows, 2):
        faster = (other.tokens_per_s_per_user or 0.0) > (one.tokens_per_s_per_user or 0.0)
        cheaper = (other.usd_per_million_tokens or 0.0) < (one.usd_per_million_tokens or 0.0)
        assert not (one.pareto and faster and cheaper)
    assert front


def test_rows_that_are_equal_are_both_on_the_front() -> None:
    goal = Goal(objective=COST)
    rows = [made_row(kind, 0.01, goal) for kind in (WAFER, GPU)]
    slower, dearer = made_row(GPU, 0.02, goal, usd_per_hour=0.5), made_row(GPU, 0.01, goal, usd_per_hour=1.1)
    assert [row.pareto for row in with_pareto([*rows, slower, dearer])] == [True, True, False, False]


@pytest.mark.slow
def test_several_lengths_are_several_questions(of_many: PlanResult) -> None:
    result = wse.compare("story", **SMALL, users=400, lengths="8/8,4/6")
    assert isinstance(result, PlanResult)
    assert [row for row in result.rows if row.prompt_len == 8] == list(of_many.rows)
    assert {(row.prompt_len, row.new_tokens) for row in result.rows} == {(8, 8), (4, 6)}
    answers = [sentence.partition(":")[0] for sentence in result.verdict if not sentence.startswith("Per hour")]
    assert answers == ["8 + 8 tokens", "4 + 6 tokens"]
    assert result.inputs["lengths"] == ["8/8", "4/6"]
    assert "lengths" in [column.title for column in result.tables()[1].columns]


def test_lengths_that_fit_nowhere_are_named_with_the_reason() -> None:
    options = {"mesh": "8x8", "wafers": [1], "mapping": "region", "jobs": 1, "set": "wafer.sram_bytes_per_pe=40000"}
    result = wse.compare("story", **options, lengths=["8/8", "8/480"])
    assert isinstance(result, PlanResult)
    assert {row.new_tokens for row in result.rows} == {8}
    assert result.verdict[-1] == (
        "8 + 480 tokens: no machine that was tried holds the model and the KV cache of one request."
    )
    assert result.impossible is not None
    assert result.impossible["8/480: region, 1 wafer"].startswith("story does not fit on 8x8 PEs")
    assert result.tables()[-1].title == "Machines that cannot serve this"
    with pytest.raises(DoesNotFit, match=r"^region, 1 wafer: story does not fit on 8x8 PEs"):
        wse.compare("story", **options, lengths="8/480")


@pytest.mark.slow
def test_gpus_in_every_number_that_is_linked_are_ranked_with_wafers() -> None:
    result = ranked(users=400, gpu=["h100"], tpot="1ms")
    gpus = {row.chips: row for row in result.rows if row.kind == GPU}
    assert sorted(gpus) == [1, 2, 4, 8]
    assert {row.name for row in gpus.values()} == {"h100"}
    assert {row.kind for row in result.rows} == {WAFER, GPU}
    costs = [row.usd_per_million_tokens or math.inf for row in result.rows]
    assert costs == sorted(costs)
    wafer = next(row for row in result.rows if row.kind == WAFER)
    gpu = next(row for row in result.rows if row.kind == GPU)
    high, low = wafer.usd_per_million_tokens or 0.0, gpu.usd_per_million_tokens or 0.0
    assert result.verdict[1].startswith(
        f"On wafers a token costs {high / low:,.0f} times as much as on GPUs, at every price within the ranges; "
    )
    assert {"gpu_usd_per_hour.h100", "wafer_usd_per_hour"} <= result.economics.keys()
    given = ranked(users=400, gpu=["h100"], gpus=2)
    assert {row.chips for row in given.rows if row.kind == GPU} == {2}


@pytest.mark.slow
def test_numbers_of_gpus_without_room_for_a_user_are_named_with_the_reason() -> None:
    """Two H100 hold the weights of 70B, and not the cache of 121,000 tokens beside them."""
    options = {"prompt_len": 120_000, "new_tokens": 1_000, "users": 2, "gpu": ["h100"], "wafers": [8], "jobs": 1}
    result = wse.compare("llama-3.1-70b", mapping="bands", **options)
    assert isinstance(result, PlanResult)
    assert {row.chips for row in result.rows if row.kind == GPU} == {4, 8}
    assert result.impossible is not None
    assert "121,000 tokens does not fit" in result.impossible["2 h100, vllm"]


def test_links_that_are_given_have_a_row_each() -> None:
    links = {"link_bandwidth": [1.0, 100.0], "link_latency": [1.0]}
    rows = ranked(users=4, wafers=[2], mapping="bands", **links).rows
    slow, fast = sorted(rows, key=lambda row: row.link_bytes_per_s or 0.0)
    assert (slow.link_bytes_per_s, fast.link_bytes_per_s) == (1e9, 100e9)
    assert slow.tokens_per_s < fast.tokens_per_s
    assert "1 GB/s" in slow.machine


def test_limits_that_nothing_keeps_are_told_with_the_nearest() -> None:
    result = ranked(users=400, ttft="1ns")
    assert result.keeping == 0
    best = result.rows[0]
    assert (best.users, best.replicas) == (1, 1)
    assert best.ttft_s == min(row.ttft_s for row in result.rows)
    assert best.excess == pytest.approx(best.ttft_s / 1e-9)
    assert result.verdict == (
        "8 + 8 tokens: none of 4 machines serves 400 users within TTFT 1 ns.",
        f"The nearest is {best.machine} with TTFT {seconds(best.ttft_s)}, {best.excess:,.0f} times the limit, for 1 "
        "user.",
    )


def test_users_without_room_are_told_with_the_room() -> None:
    result = ranked(users=4000, replicas=2)
    best = result.rows[0]
    assert result.keeping == 0
    assert best.users == best.max_users == max(row.max_users for row in result.rows)
    assert best.excess == pytest.approx(4000 / best.users)
    assert result.verdict[-1] == (
        f"The nearest is {best.machine}, which has room for {best.users:,} users: {4000 / best.users:.2f} times as "
        "many are requested."
    )


def test_the_verdict_says_of_wafers_and_gpus_which_keep_the_limits() -> None:
    goal = Goal(users=1, tpot_s=0.03, objective=COST)
    rows = [made_row(GPU, 0.02, goal), made_row(WAFER, 0.04, goal)]
    cost = usd(0.02, 0.0, 1)
    assert plan_verdict(rows, goal, [(8, 100)]) == (
        "8 + 100 tokens: 1 of 2 machines serves 1 user within TPOT 30 ms; the cheapest per token is 1 gpu, s (50 "
        f"tokens/s per user, TTFT 20 ms, {cost:.2f} USD per million tokens, 1.00 USD/h).",
        "No wafers do so; the nearest is 1 wafer, s with TPOT 40 ms, 1.33 times the limit, for 1 user.",
    )


@pytest.mark.parametrize(
    ("high", "how"),
    [(2.9, "at every price within the ranges"), (3.1, "at central prices; other prices may reverse the order")],
)
def test_the_verdict_says_whether_prices_decide(high: float, how: str) -> None:
    goal = Goal(users=1, objective=COST)
    wafer = made_row(WAFER, 0.01, goal, usd_per_hour=2, ends=(1, high))
    gpu = made_row(GPU, 0.01, goal, usd_per_hour=4, ends=(3, 5))
    _, sentence = plan_verdict([wafer, gpu], goal, [(8, 100)])
    assert sentence.startswith(
        f"On GPUs a token costs 2.00 times as much as on wafers, {how}; the cheapest per token of them is 1 gpu, s ("
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttft": "soon"}, r"--ttft 'soon': give a number with its unit, such as 200ms"),
        ({"ttft": "200"}, r"--ttft '200': give a unit, such as 200ms"),
        ({"tpot": 0.0}, r"--tpot 0: give a time of more than 0"),
        ({"top": 0}, r"--top 0: give a number of rows"),
        ({"lengths": "128"}, r"--lengths '128': give tokens of a prompt"),
        ({"lengths": "128/1"}, r"--lengths '128/1': give tokens of a prompt"),
        ({"lengths": "8/8,8/8"}, r"--lengths '8/8,8/8': give 1 to 50 pairs, each once"),
        ({"lengths": "8/8", "prompt_len": 8}, r"--prompt-len: --lengths says how long requests are"),
        ({"users": 0}, r"--users 0: give a number of at least 1"),
        ({"users": 3, "replicas": 0}, r"--replicas 0: give a number of at least 1"),
        ({"replicas": 2}, r"--replicas 2: replicas share users; give --users N too"),
        ({"users": 2, "replicas": 3}, r"--replicas 3: there are fewer users; give at most 2"),
        ({"users": 2, "plain_speed": 50.0}, r"--plain-speed 50: only --gpu without users or targets has tiers"),
        ({"users": 2, "wafers": [1], "link_bandwidth": [8.0]}, r"--wafers 1: no link joins one wafer to others"),
        ({"users": 2, "batch": 4}, r"--users 2: a pass has --batch 4 of them; give no fewer users than that"),
        ({"users": 3, "objective": "speed"}, r"unknown objective 'speed'"),
        (
            {"pareto": True, "question": "one-wafer-or-many"},
            r"--question one-wafer-or-many: --users, --objective, --ttft",
        ),
        ({"users": 3, "question": "one-wafer-or-many"}, r"--question one-wafer-or-many: --users, --objective, --ttft"),
    ],
)
def test_bad_targets_are_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message) as error:
        wse.compare("story", mesh="24x24", **options)
    assert "\n" not in str(error.value)
