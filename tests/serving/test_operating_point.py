"""Operating points and plans: replicas, cost, and the number of users that comes nearest to a goal."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from line_deployment import LineDeployment

from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.operating_point import max_passing_count, operating_point
from wse.serving.plan import plan, saturating_users, users_at_speed

LINE = LineDeployment(speed=100.0)


def test_tokens_and_cost_are_those_of_all_replicas() -> None:
    one, three = operating_point(LINE, 4), operating_point(LINE, 12, 3)
    assert (three.ttft_s, three.tpot_s) == (one.ttft_s, one.tpot_s)
    assert three.tokens_per_s == pytest.approx(3 * one.tokens_per_s)
    assert three.usd_per_million_tokens.value == pytest.approx(one.usd_per_million_tokens.value)
    assert one.usd_per_million_tokens.low_value_high == pytest.approx(
        [8 * usd / 3600 / one.tokens_per_s * 1e6 for usd in (1, 2, 3)]
    )
    assert one.joules_per_token.value == pytest.approx(8_000 / one.tokens_per_s)
    assert one.tokens_per_s == pytest.approx(101 * 4 / (one.ttft_s + 100 * (one.tpot_s or 0)))


def test_latency_is_that_of_the_replica_with_the_most_requests() -> None:
    uneven = operating_point(LINE, 5, 3)  # 2, 2 and 1
    two, one = operating_point(LINE, 2), operating_point(LINE, 1)
    assert uneven.tpot_s == two.tpot_s
    assert uneven.tokens_per_s == pytest.approx(2 * two.tokens_per_s + one.tokens_per_s)
    alone = operating_point(LINE, 1, 3)
    assert alone.tokens_per_s == pytest.approx(one.tokens_per_s), "two replicas are idle"


@given(st.integers(0, 50), st.integers(0, 60))
def test_largest_number_is_found(most: int, bound: int) -> None:
    assert max_passing_count(lambda number: number <= bound, most) == min(most, bound)


@given(st.floats(1, 200))
def test_most_users_at_a_speed_get_it_and_one_more_would_not(speed: float) -> None:
    users = users_at_speed(partial(operating_point, LINE), saturating_users(LINE), speed)
    assert users == max((n for n in range(1, 101) if 100 / (1 + n / 10) >= speed), default=0)


def test_goal_without_users() -> None:
    """One user is the fastest; all that fit, or that keep the limits, have the most throughput and the lowest cost."""
    for objective, users in ((LATENCY, 1), (THROUGHPUT, 100), (COST, 100)):
        found = plan(LINE, Goal(objective=objective))
        assert (found.point.concurrency, found.meets) == (users, True)
    limited = plan(LINE, Goal(objective=COST, tpot_s=0.02))
    assert (limited.point.concurrency, limited.excess) == (10, pytest.approx(1.0))


@given(st.integers(1, 1_000), st.floats(0.5, 20), st.floats(0.012, 0.5))
def test_replicas_are_the_fewest_that_keep_the_limits(users: int, ttft_s: float, tpot_s: float) -> None:
    goal = Goal(users=users, replicas=None, ttft_s=ttft_s, tpot_s=tpot_s)
    found = plan(LINE, goal)
    assert found.meets
    assert found.point.concurrency == users
    assert goal.excess(found.point) <= 1
    if found.point.replicas > 1:
        assert goal.excess(operating_point(LINE, users, found.point.replicas - 1)) > 1 or (
            users > (found.point.replicas - 1) * LINE.max_concurrency
        )


def test_what_cannot_be_kept_is_told_by_how_much() -> None:
    one_user = plan(LINE, Goal(users=7, replicas=None, tpot_s=0.001))
    assert (one_user.meets, one_user.excess) == (False, pytest.approx(11.0))
    crowded = plan(LINE, Goal(users=250, replicas=2))
    assert (crowded.meets, crowded.excess, crowded.point.concurrency) == (False, 1.25, 200)
    assert plan(LineDeployment(speed=1.0, max_concurrency=0), Goal()) is None
