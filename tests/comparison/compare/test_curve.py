"""Wafers beside GPUs: streams against closed forms, tiers, frontiers, and the rules of the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from wse.comparison.compare.curve.frontier import cheaper_from, cheapest_at, frontier, with_best
from wse.comparison.compare.curve.machine import Service, curve_of, fast_batch
from wse.comparison.compare.curve.public import public_points
from wse.comparison.compare.curve.row import FAST, GPU, PLAIN, WAFER, CurveRow
from wse.comparison.compare.curve.verdict import curve_verdict
from wse.comparison.compare.curve.wafers import WaferMachine
from wse.hardware.load import load_wafer
from wse.hardware.number import SourcedNumber
from wse.models.load import load_model
from wse.serving.economics import load_economics

WAFERS = WaferMachine(
    name="wse3",
    chips=4,
    software="bands",
    link="",
    users_per_batch=1,
    most=20,
    new_tokens=100,
    token_s=0.002,
    prompt_s=0.05,
    busiest_token_s=0.0005,
    busiest_request_s=0.06,
    economics=load_economics(load_wafer("wse3")),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A machine of which each user gets 100 tokens a second over 1 + users / 10."""

    machine: str = "8 gpus"
    kind: str = GPU
    name: str = "gpu"
    chips: int = 8
    software: str = "stack"
    users_per_batch: int = 1
    most: int = 100

    def service(self, batch: int) -> Service:
        speed = 100 / (1 + batch / 10)
        number = SourcedNumber(value=1 / (batch * speed), unit="1", grade="I", source="test", range=None)
        return Service(tokens_per_s_per_user=speed, tokens_per_s=batch * speed, exact=True, cost=number, energy=number)


def row(kind: str, users: int, speed: float, usd: float, **changes: object) -> CurveRow:
    machine = "4 wse3, bands" if kind == WAFER else "8 h200, trtllm"
    return CurveRow(
        machine=machine,
        kind=kind,
        name=machine.split()[1],
        chips=4,
        software="",
        users=users,
        tokens_per_s_per_user=speed,
        tokens_per_s=users * speed,
        exact=True,
        usd_per_million_tokens=usd,
        usd_per_million_tokens_low=usd / 1.1,
        usd_per_million_tokens_high=usd * 1.1,
        joules_per_token=usd,
        joules_per_token_low=usd,
        joules_per_token_high=usd,
        **changes,  # type: ignore[arg-type]
    )


WAFER_ROWS = (row(WAFER, 1, 1000, 50), row(WAFER, 20, 900, 4))
GPU_ROWS = (row(GPU, 1, 120, 100), row(GPU, 16, 90, 8), row(GPU, 64, 50, 3), row(GPU, 512, 10, 1))


def test_one_stream_is_as_fast_as_alone_and_pays_for_its_prompt() -> None:
    alone = WAFERS.service(1)
    assert alone.tokens_per_s_per_user == pytest.approx(500)
    assert alone.tokens_per_s == pytest.approx(100 / 0.25)
    assert alone.exact
    assert alone.cost.value == pytest.approx(4 * 41.96 / 3600 / 400 * 1e6)
    assert alone.energy.value == pytest.approx(4 * 23_000 / 400)


def test_streams_share_the_busiest_stage_prompts_included() -> None:
    """Four fit beside each other: 0.25 s alone over 0.06 s. Ten take turns, and decode in what the prompt leaves."""
    four, ten = WAFERS.service(4), WAFERS.service(10)
    assert four.tokens_per_s_per_user == pytest.approx(500)
    assert four.tokens_per_s == pytest.approx(4 * 400)
    assert ten.tokens_per_s == pytest.approx(100 / 0.06)
    assert ten.tokens_per_s_per_user == pytest.approx(100 / (10 * 0.06 - 0.05))
    assert not ten.exact


def test_a_stage_that_tokens_keep_busy_bounds_them() -> None:
    busy = replace(WAFERS, busiest_token_s=0.001, prompt_s=0.0, busiest_request_s=0.01)
    assert busy.service(10).tokens_per_s_per_user == pytest.approx(100)


def test_tiers_are_the_most_users_and_the_most_that_are_fast_enough() -> None:
    rows = curve_of(Line(most=101))
    assert [r.users for r in rows] == sorted({r.users for r in rows})
    plain, fast = (next(r for r in rows if r.tier == tier) for tier in (PLAIN, FAST))
    assert plain.users == 101
    assert fast.users == 34  # 1 + u / 10 <= 11.1 / 2.5
    assert fast.tokens_per_s_per_user >= 2.5 * plain.tokens_per_s_per_user > Line().service(35).tokens_per_s_per_user


def test_there_is_no_fast_tier_where_one_user_alone_is_not_fast_enough() -> None:
    assert fast_batch(Line(), 10) is None
    assert all(r.tier != FAST for r in curve_of(Line(most=10)))


def test_frontier_leaves_out_what_is_slower_and_no_cheaper() -> None:
    worse = row(WAFER, 2, 950, 60)
    assert frontier([*WAFER_ROWS, worse]) == list(WAFER_ROWS)
    marked = with_best([*WAFER_ROWS, worse, *GPU_ROWS])
    assert [r.best for r in marked] == [True, True, False, True, True, True, True]


def test_cheapest_at_a_speed() -> None:
    cheapest = cheapest_at(GPU_ROWS, 50)
    assert cheapest is not None
    assert cheapest.users == 64
    assert cheapest_at(GPU_ROWS, 121) is None


def test_wafers_are_cheaper_from_the_first_speed_that_gpus_reach_at_a_higher_price() -> None:
    assert cheaper_from(WAFER_ROWS, GPU_ROWS) == 90
    assert cheaper_from(WAFER_ROWS, [replace(GPU_ROWS[0], usd_per_million_tokens=1)]) == 900
    assert cheaper_from([replace(WAFER_ROWS[0], tokens_per_s_per_user=9)], GPU_ROWS) is None


def test_verdict_follows_from_the_rows() -> None:
    first, second = curve_verdict([*WAFER_ROWS, *GPU_ROWS])
    assert first == (
        "One user is 8.3 times as fast on 4 wse3, bands as on 8 h200, trtllm: 1,000 tokens/s against 120 tokens/s."
    )
    assert second == (
        "A token is cheapest on 8 h200, trtllm, 1.00 USD a million with 512 users of 10 tokens/s, against 4.00 USD a "
        "million on 4 wse3, bands; from 90 tokens/s a user on wafers are the cheaper ones whatever is known of "
        "prices, and above 120 tokens/s a user wafers are the only ones."
    )


def test_verdict_tells_the_speed_at_the_prices_that_favour_gpus() -> None:
    dear = [replace(r, usd_per_million_tokens_high=20) for r in WAFER_ROWS]
    assert "ones (from 120 tokens/s at the prices" in curve_verdict([*dear, *GPU_ROWS])[1]
    dearest = [replace(r, usd_per_million_tokens_high=200) for r in WAFER_ROWS]
    assert "ones (at no speed of GPUs at the prices" in curve_verdict([*dearest, *GPU_ROWS])[1]


def test_verdict_where_wafers_are_cheaper_at_every_speed() -> None:
    _, second = curve_verdict([*(replace(r, usd_per_million_tokens=0.5) for r in WAFER_ROWS), *GPU_ROWS])
    assert second.startswith("A token is cheapest on 4 wse3, bands")
    assert "GPUs are" not in second


def test_verdict_where_gpus_are_faster_and_prices_overlap() -> None:
    close = [replace(WAFER_ROWS[1], tokens_per_s_per_user=60.0, usd_per_million_tokens_low=1.05)]
    first, second = curve_verdict([*close, *GPU_ROWS])
    assert first.startswith("One user is 2.0 times as fast on 8 h200, trtllm")
    assert "it may be the other way round" in second
    assert "wafers are the only ones" not in second


def test_published_speeds_are_those_of_models_of_the_same_layers() -> None:
    points = public_points(load_model("llama-3.1-70b", with_weights=False).spec)
    assert {point.model for point in points} >= {"Llama-3.1-70B", "Llama-3.3-70B"}
    assert all("70B" in point.model for point in points)
    assert [p.tokens_per_s_per_user for p in points] == sorted((p.tokens_per_s_per_user for p in points), reverse=True)
    (deepseek,) = public_points(load_model("deepseek-v3", with_weights=False).spec)
    assert deepseek.usd_per_million_tokens == pytest.approx(8 * 2.0 / 3600 / 14_800 * 1e6, rel=1e-3)
    assert deepseek.price_source == deepseek.source
