"""Tests of ranking machines for a number of users and latency limits: replicas, order, missed limits and refusals."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wse
from tests.comparison.compare.synthetic import made_row
from wse.errors import DoesNotFit
from wse.reports.number_text import three_figures
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.certainty import cheaper_kinds, share_within_limits
from wse.studies.compare.plan.result import CheaperResult, PlanResult
from wse.studies.compare.plan.rows import with_pareto
from wse.studies.compare.plan.study import next_counts, rows_of_one_user
from wse.studies.compare.plan.verdict import plan_verdict
from wse.studies.compare.published import published_of_rows
from wse.studies.compare.request import WaferLink
from wse.studies.compare.result import cache_footer
from wse.studies.estimate.layouts import ranked_layouts
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout
from wse.studies.estimate.layouts.improved_layouts import improved_layouts
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

COSTS = "usd_per_million_tokens"
SMALL = {"mesh": "16x16", "wafers": [1, 2], "mapping": "region", "schedule": "baseline", "jobs": 1}
LENGTHS = {"prompt_len": 8, "new_tokens": 8}


def ranking_of(**options: object) -> PlanResult:
    """Return the ranking of small wafers for the story model, with changed options."""
    result = wse.compare("story", **{**SMALL, **LENGTHS, **options})
    assert isinstance(result, PlanResult)
    return result


@pytest.fixture(scope="module")
def ranked_for_400_users() -> PlanResult:
    """Return the ranking of machines for 400 users, without latency limits."""
    return ranking_of(users=400)


MULTIPLES = (4, 8, 16, 32)


@pytest.mark.parametrize("best", [4, 5, 7, 13, 23, 31, 32])
def test_search_over_numbers_of_wafers_finds_the_best(best: int) -> None:
    """From 4 and 8 wafers, counts are tried until the neighbours of the best are within an eighth of it."""
    goal = Goal(users=4, objective=COST)
    row = replace(made_row(WAFER, 0.01, goal), keeps=True, replicas=1)
    tried: set[int] = set()
    counts = [4, 8]
    while counts:
        assert tried.isdisjoint(counts)
        tried |= {*counts}
        costs = {count: 1.0 + abs(count - best) for count in tried}
        rows = [replace(row, chips=n, usd_per_million_tokens=usd, usd_per_hour=usd) for n, usd in costs.items()]
        counts = next_counts(rows, goal, tried, MULTIPLES)
    assert min(abs(count - best) for count in tried) <= max(1, best // 8)
    assert len(tried) <= 4 + 2 * 4
    assert (32 in tried) == (best > 8)


def test_search_tries_all_wafers_of_the_replicas_with_the_lowest_price_as_one_machine() -> None:
    goal = Goal(users=4, objective=COST)
    row = replace(made_row(WAFER, 0.01, goal), keeps=True, usd_per_million_tokens=1.0)
    rows = [replace(row, chips=4, replicas=1, usd_per_hour=9.0), replace(row, chips=8, replicas=4, usd_per_hour=1.0)]
    assert 32 in next_counts(rows, goal, {4, 8}, MULTIPLES)


def test_search_for_the_lowest_price_per_hour_tries_no_larger_single_machine() -> None:
    goal = Goal(users=4, objective=COST)
    row = replace(made_row(WAFER, 0.01, goal), keeps=True)
    rows = [
        replace(row, chips=4, replicas=5, usd_per_million_tokens=1.0, usd_per_hour=20.0),
        replace(row, chips=16, replicas=1, usd_per_million_tokens=2.0, usd_per_hour=16.0),
    ]
    assert next_counts(rows, goal, {4, 8, 16}, MULTIPLES) == [6, 12]


def test_search_tries_the_next_multiple_if_no_machine_meets_the_limits() -> None:
    goal = Goal(users=4, objective=COST)
    missing = replace(made_row(WAFER, 0.01, goal), chips=4, keeps=False)
    assert next_counts([missing], goal, {4, 8}, MULTIPLES) == [6, 16]


def test_machines_are_sorted_by_cost_and_include_the_fewest_replicas(ranked_for_400_users: PlanResult) -> None:
    """Without limits, each machine has a row with the fewest replicas and rows with 2, 4, 8, ... replicas."""
    replicas_by_machine: dict[tuple[int, str], list[int]] = {}
    for row in ranked_for_400_users.rows:
        replicas_by_machine.setdefault((row.chips, row.software), []).append(row.replicas)
    assert len(replicas_by_machine) == 2
    assert ranked_for_400_users.tried == ranked_for_400_users.keeping == len(ranked_for_400_users.rows)
    max_chips = max(chips for chips, _ in replicas_by_machine)
    for (chips, _), replicas in replicas_by_machine.items():
        assert len(set(replicas)) == len(replicas)
        assert {2**power for power in range(1, 7) if 2**power * chips <= max_chips} <= {*replicas}
    assert {row.users for row in ranked_for_400_users.rows} == {400}
    costs = [row.usd_per_million_tokens or math.inf for row in ranked_for_400_users.rows]
    assert costs == sorted(costs)
    for row in ranked_for_400_users.rows:
        users_per_replica = row.max_users // row.replicas
        fewest = min(replicas_by_machine[row.chips, row.software])
        # The minimum can be below the quotient, because users may wait for room.
        assert row.replicas > fewest or fewest <= math.ceil(400 / users_per_replica)
        chips = row.replicas * row.chips
        assert row.usd_per_million_tokens == pytest.approx(chips * 64.45 / 3600 / row.tokens_per_s * 1e6)
        assert (row.usd_per_million_tokens_low or 0.0) < (row.usd_per_million_tokens_high or 0.0)
        assert row.tokens_per_s_per_user == pytest.approx(1 / (row.tpot_s or math.inf))


def test_without_users_and_limits_one_user_decides() -> None:
    result = ranking_of(top=1)
    (row,) = result.rows
    assert (result.tried, row.chips, row.users, row.keeps) == (2, 1, 1, True)
    (sentence,) = result.verdict
    assert sentence.startswith(f"8 + 8 tokens: the fastest of 2 machines for one user is {row.machine} with ")
    assert ("...", "1 machine of 2 not shown") in result.tables()[1].footer


def test_small_kv_caches_of_gpus_are_noted() -> None:
    assert cache_footer(["bfloat16", "int8", "int4"]) == []
    types = ["fp8", "bfloat16", "mxfp4", "fp8"]
    assert cache_footer(types) == [("KV caches", "8 bits per element on GPUs with fp8 or mxfp4 weights")]


def test_rows_that_are_equal_are_both_on_the_front() -> None:
    goal = Goal(objective=COST)
    rows = [made_row(kind, 0.01, goal) for kind in (WAFER, GPU)]
    slower, costlier = made_row(GPU, 0.02, goal, usd_per_hour=0.5), made_row(GPU, 0.01, goal, usd_per_hour=1.1)
    assert [row.pareto for row in with_pareto({row: {} for row in (*rows, slower, costlier)})] == [
        True,
        True,
        False,
        False,
    ]
    fast, cheap = (
        replace(rows[0], tokens_per_s_per_user=speed, usd_per_million_tokens=usd)
        for speed, usd in ((918.4, 20.0), (918.1, 10.0))
    )  # the speeds are equal after rounding for printing
    assert [row.pareto for row in with_pareto({row: {} for row in (fast, cheap)})] == [False, True]


def test_lengths_that_fit_nowhere_are_named_with_the_reason() -> None:
    options = {"mesh": "8x8", "wafers": [1], "mapping": "region", "jobs": 1, "set": "wafer.sram_bytes_per_pe=40000"}
    result = wse.compare("story", **options, lengths=["8/8", "8/480"])
    assert isinstance(result, PlanResult)
    assert {row.new_tokens for row in result.rows} == {8}
    assert result.verdict[-1] == (
        "8 + 480 tokens: no machine that was tried holds the model and the KV cache of one request."
    )
    assert result.impossible["8/480: region, 1 wafer"].startswith("story does not fit on 8x8 PEs")
    assert result.tables()[-1].title == "Machines that cannot serve this"
    with pytest.raises(DoesNotFit, match=r"^region, 1 wafer: story does not fit on 8x8 PEs"):
        wse.compare("story", **options, lengths="8/480")


def test_given_links_have_a_row_each() -> None:
    links = {"link_bandwidth": [1.0, 100.0], "link_latency": [1.0]}
    rows = ranking_of(users=4, wafers=[2], **links).rows
    slow, fast = sorted(rows, key=lambda row: row.link_bytes_per_s or 0.0)
    assert (slow.link_bytes_per_s, fast.link_bytes_per_s) == (1e9, 100e9)
    assert slow.tokens_per_s < fast.tokens_per_s
    assert "1 GB/s" in slow.machine


@pytest.mark.slow
@pytest.mark.parametrize(("mapping", "schedule"), [("region", "optimized"), ("tensor", "baseline")])
def test_shorter_latency_of_links_does_not_raise_the_cost(mapping: str, schedule: str, test_data: Path) -> None:
    """A layout is searched for each link. The latency of a link keeps neither a stage nor the link busy."""
    model, options = test_data / "models" / "stories260k", {"mesh": "6x6", "wafers": [2], "users": 4, "jobs": 1}
    options |= {"mapping": mapping, "schedule": schedule}
    found = wse.compare(model, link_latency=[1.0, 10.0], **options, **LENGTHS)
    short, long = sorted(found.rows, key=lambda row: row.link_latency_s or 0.0)
    assert (short.link_latency_s, long.link_latency_s) == (1e-6, 1e-5)
    assert getattr(short, COSTS) <= getattr(long, COSTS)


def test_layouts_for_a_free_number_of_replicas_are_improved_for_given_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first number is the smallest whose SRAM can hold all KV caches, so it gets the layouts of `--replicas 1`."""
    ranked_replicas: list[int | None] = []

    def improved(*arguments: Any) -> list[CompiledLayout]:
        ranked_replicas.append(arguments[-1].replicas)
        return improved_layouts(*arguments)

    monkeypatch.setattr(ranked_layouts, "improved_layouts", improved)
    ranking_of(users=6, wafers=[1])
    assert ranked_replicas[0] == 1
    assert None not in ranked_replicas


def test_cheaper_kind_is_the_one_with_lower_cost_and_its_share_that_of_the_samples() -> None:
    goal = Goal(users=1, tpot_s=0.02, objective=COST)
    wafer, gpu = (made_row(kind, 0.01, goal, usd_per_hour=usd) for kind, usd in ((WAFER, 2), (GPU, 4)))
    samples = {wafer: {COSTS: np.array([1.0, 2, 3, 4])}, gpu: {COSTS: np.array([2.0, 2, 2, 5])}}
    (cheaper,) = cheaper_kinds([wafer, gpu], samples, [(8, 100)])
    assert (cheaper.kind, cheaper.share, cheaper.samples) == (WAFER, 0.625, 4)
    assert cheaper.ratio == pytest.approx(2)
    assert cheaper.break_even_usd_per_wafer_hour == pytest.approx(2 * 2)  # twice the wafer's price of 2 USD per hour
    failing_gpu = replace(gpu, keeps=False)
    assert cheaper_kinds([wafer, failing_gpu], samples, [(8, 100)]) == ()
    assert cheaper_kinds([wafer, gpu], samples | {gpu: {}}, [(8, 100)]) == ()


def test_share_within_limits_counts_the_samples_that_meet_every_limit() -> None:
    samples = {"ttft_s": np.array([1.0, 1, 3, 3]), "tpot_s": np.array([0.01, 0.03, 0.01, 0.03])}
    assert share_within_limits(samples, Goal(ttft_s=2, tpot_s=0.02)) == 0.25
    assert share_within_limits(samples, Goal(tpot_s=0.02)) == 0.5
    assert share_within_limits({}, Goal(tpot_s=0.02)) == 1
    assert share_within_limits(samples, Goal()) is None


@pytest.mark.parametrize(("share", "ends_with_note"), [(0.48, True), (0.5, False)])
def test_verdict_says_when_most_samples_contradict_the_nominal_values(share: float, *, ends_with_note: bool) -> None:
    goal = Goal(users=1, objective=COST)
    rows = [made_row(kind, 1.0, goal) for kind in (WAFER, GPU)]
    lengths = rows[0].prompt_len, rows[0].new_tokens
    cheaper = CheaperResult(
        prompt_len=lengths[0],
        new_tokens=lengths[1],
        kind=WAFER,
        ratio=1.1,
        share=share,
        samples=256,
        break_even_usd_per_wafer_hour=1.1,
    )
    *_, certainty, _ = plan_verdict(rows, goal, [lengths], [cheaper])
    assert ("; in the others it is cheaper on" in certainty) == ends_with_note


def test_verdict_compares_the_best_replicas_with_the_best_single_machine(ranked_for_400_users: PlanResult) -> None:
    """The sentence states the costs of the best row of each kind with equally many wafers in total."""
    (sentence,) = [text for text in ranked_for_400_users.verdict if " in total, " in text]
    total = int(re.findall(r"On (\d+) wafer", sentence)[0])
    rows = [row for row in ranked_for_400_users.rows if row.replicas * row.chips == total]
    one = next(row for row in rows if row.replicas == 1)
    several = next(row for row in rows if row.replicas > 1)
    costs = [three_figures(row.usd_per_million_tokens or 0.0) for row in sorted((one, several), key=rows.index)]
    assert re.findall(r"with ([\d.,]+) USD per million tokens", sentence) == costs


def test_replicas_are_compared_only_with_a_machine_of_as_many_wafers() -> None:
    goal = Goal(users=8, objective=COST)
    row = replace(made_row(WAFER, 0.01, goal), keeps=True, chips=1)
    lengths = [(row.prompt_len, row.new_tokens)]
    rows = [row, replace(row, replicas=2), replace(row, chips=2)]
    assert "On 2 wafers in total, replicas have" in " ".join(plan_verdict(rows, goal, lengths, []))
    assert "replicas" not in " ".join(plan_verdict(rows[:2], goal, lengths, []))


def test_sentence_about_replicas_states_the_figure_of_the_objective() -> None:
    sentences = {}
    for objective in (COST, THROUGHPUT, LATENCY):
        goal = Goal(users=8, objective=objective)
        row = replace(made_row(WAFER, 0.01, goal), keeps=True, tokens_per_s=1234.0, tokens_per_s_per_user=56.0)
        row = replace(row, request_s=7.0)
        rows = [replace(row, replicas=replicas, chips=2 // replicas) for replicas in (2, 1)]
        *_, sentences[objective] = plan_verdict(rows, goal, [(row.prompt_len, row.new_tokens)], [])
    assert all(
        re.search("replicas have .* than a single machine: 2 x .*, ", sentence) for sentence in sentences.values()
    )
    assert [sentences[COST].count(figure) for figure in ("56 tokens/s per user", "1,234")] == [2, 0]
    assert [sentences[THROUGHPUT].count(figure) for figure in ("per user", "1,234 tokens/s")] == [0, 2]
    assert sentences[LATENCY].count("7 s per request") == 2


def test_nearest_machine_is_described_with_the_users_that_it_serves_at_a_time() -> None:
    goal = Goal(users=142, objective=COST)
    row = replace(made_row(WAFER, 1.0, goal), users=71, max_users=48, keeps=False, excess=2.0)
    for room, text in ((48, "at most 71 users, 48 at a time: 2.00"), (71, "at most 71 users: 2.00")):
        *_, nearest = plan_verdict([replace(row, max_users=room)], goal, [(row.prompt_len, row.new_tokens)], [])
        assert text in nearest


def test_room_is_that_of_the_chosen_layout() -> None:
    """Tables say how many users wait, and how many of the requested users can be served."""
    row = replace(made_row(WAFER, 1.0, Goal(users=1, objective=COST)), users=64, max_users=48)
    result = replace(ranking_of(users=1), users=64)
    rows = (row, replace(row, max_users=64), replace(row, users=48, keeps=False))
    _, table = replace(result, rows=rows).tables()
    columns = {column.title: table.cells(column) for column in table.columns}
    assert [cell.value for cell in columns["room"]] == [48, 64, 48]
    assert [str(cell.text) for cell in columns["users"]] == ["64, 16 wait", "64", "48 of 64"]


def test_published_speeds_are_compared_with_the_fastest_row_of_one_user_over_the_first_link() -> None:
    goal = Goal(users=1, objective=COST)
    row = replace(made_row(WAFER, 0.01, goal), name="wse3", dtype="bfloat16", chips=1, tokens_per_s_per_user=1000.0)
    link = WaferLink(150e9, 5e-6)
    rows = [
        row,
        replace(row, users=2, tokens_per_s_per_user=9000.0),
        replace(row, in_flight=0.5, tokens_per_s_per_user=9000.0),
        replace(row, new_tokens=row.new_tokens + 1, tokens_per_s_per_user=9000.0),
        replace(row, link_bytes_per_s=1e9, link_latency_s=5e-6, tokens_per_s_per_user=9000.0),
        replace(row, link_bytes_per_s=link.bytes_per_s, link_latency_s=link.latency_s, tokens_per_s_per_user=1200.0),
        replace(row, users=2, replicas=2, tokens_per_s_per_user=1100.0),
    ]
    of_one_user = rows_of_one_user(rows, link)
    assert of_one_user == [rows[0], rows[5], rows[6]]
    spec = prepare_estimate(make_request(EstimateRequest, model="llama-3-8b", wafers=1)).spec
    published = published_of_rows(spec, of_one_user)
    assert {speed.tokens_per_s_per_user for speed in published} == {1837, 2200}
    assert {speed.ratio for speed in published} == {1200 / 1837, 1200 / 2200}
