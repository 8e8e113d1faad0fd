"""Rows of comparisons that keep targets: the cheapest first, users no more than the time of a token leaves."""

from __future__ import annotations

import pytest

import wse
from wse.comparison.compare.ranking.result import RankingResult
from wse.errors import BadInput, DoesNotFit

SMALL = {"mesh": "16x16", "wafers": [1, 2], "mapping": "region,bands", "schedule": "released", "jobs": 1}


@pytest.fixture(scope="module")
def plain() -> wse.api.CompareResult:
    return wse.compare("story", **SMALL, prompt_len=8, new_tokens=8)


@pytest.fixture(scope="module")
def every() -> RankingResult:
    return ranked(top=100)


def ranked(**targets: object) -> RankingResult:
    result = wse.compare("story", **SMALL, prompt_len=8, new_tokens=8, **targets)
    assert isinstance(result, RankingResult)
    return result


def own_link(plain: wse.api.CompareResult) -> list[wse.api.ComparisonRow]:
    links = [row.link for row in plain.possible if row.wafers > 1]
    return [row for row in plain.possible if row.wafers == 1 or row.link == links[0]]


def test_without_targets_the_fastest_come_first(plain: wse.api.CompareResult) -> None:
    result = ranked(top=3)
    speeds = [row.tokens_per_s_per_user for row in result.rows]
    assert speeds == sorted((row.tokens_per_s_per_user for row in own_link(plain)), reverse=True)[:3]
    assert result.tried == len(own_link(plain))
    assert all(row.keeps for row in result.rows)


def test_rows_that_keep_the_targets_come_before_the_others_the_cheapest_first(every: RankingResult) -> None:
    ttft, tpot = max(row.ttft_s for row in every.rows), min(row.tpot_s for row in every.rows)
    result = ranked(ttft=ttft, tpot=tpot)
    keeps = [row.ttft_s <= ttft and row.tpot_s <= tpot for row in result.rows]
    assert [row.keeps for row in result.rows] == keeps == sorted(keeps, reverse=True)
    assert True in keeps
    assert False in keeps
    costs = [row.usd_per_million_tokens for row in result.rows if row.keeps]
    assert costs == sorted(costs)
    assert result.keeping == len(costs)
    assert result.targets == {"ttft_s": ttft, "tpot_s": tpot}


def test_no_more_users_than_the_time_of_a_token_leaves(every: RankingResult) -> None:
    for row, free in zip(*(sorted(r.rows, key=str) for r in (ranked(tpot=1e-4), every)), strict=True):
        assert row.users <= free.users
        assert row.users / row.tokens_per_s <= max(1e-4, row.tpot_s) * (1 + 1e-6)
        assert row.tokens_per_s <= free.tokens_per_s
        spent = row.usd_per_million_tokens * row.tokens_per_s
        assert spent == pytest.approx(free.usd_per_million_tokens * free.tokens_per_s)
        assert row.tokens_per_s_per_wafer == row.tokens_per_s / row.wafers


def test_the_front_has_what_no_row_surpasses(every: RankingResult) -> None:
    assert {row for row in every.rows if row.pareto} == set(ranked(pareto=True).rows)
    pairs = [(row.tokens_per_s_per_user, row.tokens_per_s_per_wafer) for row in every.rows]
    for row in every.rows:
        user, wafer = row.tokens_per_s_per_user, row.tokens_per_s_per_wafer
        surpassed = any(u >= user and w >= wafer and (u, w) != (user, wafer) for u, w in pairs)
        assert row.pareto != surpassed


def test_several_lengths_are_several_comparisons(every: RankingResult) -> None:
    result = wse.compare("story", **SMALL, lengths="8/8,4/6", top=100)
    assert [row for row in result.rows if row.prompt_len == 8] == list(every.rows)
    assert {(row.prompt_len, row.new_tokens) for row in result.rows} == {(8, 8), (4, 6)}
    assert len(result.verdict) == 2
    assert result.inputs["lengths"] == ["8/8", "4/6"]
    assert "lengths" in [column.title for column in result.tables()[1].columns]


def test_lengths_that_fit_nowhere_are_told_beside_those_that_do() -> None:
    options = {"mesh": "8x8", "wafers": [1], "mapping": "region", "jobs": 1, "set": "wafer.sram_bytes_per_pe=40000"}
    result = wse.compare("story", **options, lengths=["8/8", "8/480"])
    assert {row.new_tokens for row in result.rows} == {8}
    assert "none of 1 combination can be" in result.verdict[-1]
    with pytest.raises(DoesNotFit):
        wse.compare("story", **options, lengths="8/480")


def test_targets_that_nothing_keeps_are_told_with_the_nearest() -> None:
    result = ranked(ttft="1ns")
    assert result.keeping == 0
    (sentence,) = result.verdict
    assert f"none of {result.tried} rows keeps TTFT 1 ns; the nearest: " in sentence
    assert result.rows[0].ttft_s == min(row.ttft_s for row in result.rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttft": "soon"}, r"--ttft 'soon': give a time, such as 200ms"),
        ({"tpot": 0.0}, r"--tpot 0: give a time of more than 0"),
        ({"top": 0}, r"--top 0: give a number of rows"),
        ({"lengths": "128"}, r"--lengths '128': give tokens of a prompt"),
        ({"lengths": "128/1"}, r"--lengths '128/1': give tokens of a prompt"),
        ({"lengths": "8/8,8/8"}, r"--lengths '8/8,8/8': give 1 to 50 pairs, each once"),
        ({"lengths": "8/8", "prompt_len": 8}, r"--prompt-len: --lengths says how long requests are"),
        ({"top": 3, "gpu": ["h100"]}, r"--gpu: --ttft, --tpot, --lengths, --top and --pareto rank rows of wafers"),
        ({"pareto": True, "question": "one-wafer-or-many"}, r"--question one-wafer-or-many: --ttft, --tpot"),
    ],
)
def test_bad_targets_are_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message) as error:
        wse.compare("story", mesh="24x24", **options)
    assert "\n" not in str(error.value)
