"""Tests of operating points and plans against closed forms: replicas, limits, waiting users and streamed weights."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.comparison.compare.synthetic import economics
from wse.bisection import largest_passing
from wse.program.routing import expected_experts
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.economics import Economics
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.operating_point import RequestShape, operating_point, users_with_in_flight
from wse.serving.plan import plan, saturating_users, users_at_speed
from wse.serving.steady_state import SteadyState
from wse.serving.weight_streaming import StreamingBound, Weights

SHAPE: Final = RequestShape(prompt_tokens=10, new_tokens=101)


@dataclass(frozen=True, kw_only=True)
class LineDeployment:
    """A deployment in which latencies are linear in the number of users N.

    The first token takes N / 10 seconds. After it, each user gets ``speed`` / (1 + N / 10) tokens/s.
    """

    speed: float
    usd_per_hour: tuple[float, float, float] = (2.0, 1.0, 3.0)
    chips: int = 8
    max_concurrency: int = 100
    slots: int = 1
    shape: RequestShape = SHAPE

    @property
    def economics(self) -> Economics:
        return economics("gpu", self.usd_per_hour[0], self.usd_per_hour[1:])

    def steady_state(self, users: float, think_s: float = 0.0) -> SteadyState:
        assert not think_s, "the tests of pauses use another deployment"
        ttft_s = users / 10
        answer_s = (self.shape.new_tokens - 1) * (1 + users / 10) / self.speed
        rate = users / (ttft_s + answer_s)
        return SteadyState(ttft_s=ttft_s, answer_s=answer_s, requests_per_s=rate, saturated=False)


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
    assert one.request_s == three.request_s == pytest.approx(one.ttft_s + 100 * (one.tpot_s or 0))
    assert one.tokens_per_s == pytest.approx(101 * 4 / one.request_s)


def test_latency_is_that_of_the_replica_with_the_most_requests() -> None:
    uneven = operating_point(LINE, 5, 3)  # 2, 2 and 1
    two, one = operating_point(LINE, 2), operating_point(LINE, 1)
    assert uneven.tpot_s == two.tpot_s
    assert uneven.tokens_per_s == pytest.approx(2 * two.tokens_per_s + one.tokens_per_s)
    alone = operating_point(LINE, 1, 3)
    assert alone.tokens_per_s == pytest.approx(one.tokens_per_s), "two replicas are idle"


@given(st.integers(0, 50), st.integers(0, 60))
def test_largest_passing_number_is_found(max_number: int, bound: int) -> None:
    assert (largest_passing(1, max_number + 1, lambda number: number <= bound) or 0) == min(max_number, bound)


@given(st.floats(1, 200))
def test_users_at_a_speed_are_the_most_that_get_it(speed: float) -> None:
    users = users_at_speed(partial(operating_point, LINE), saturating_users(LINE), speed)
    assert users == max((n for n in range(1, 101) if 100 / (1 + n / 10) >= speed), default=0)


def test_plan_without_users_chooses_their_number() -> None:
    """One user is fastest. Throughput and cost are best with all users that have room, or that meet the limits."""
    for objective, users in ((LATENCY, 1), (THROUGHPUT, 100), (COST, 100)):
        found = plan(LINE, Goal(objective=objective))
        assert (found.point.users, found.meets) == (users, True)
    limited = plan(LINE, Goal(objective=COST, tpot_s=0.02))
    assert (limited.point.users, limited.excess) == (10, pytest.approx(1.0))


@given(st.integers(1, 1_000), st.floats(0.5, 20), st.floats(0.012, 0.5))
def test_replicas_are_the_fewest_that_meet_the_limits(users: int, ttft_s: float, tpot_s: float) -> None:
    goal = Goal(users=users, replicas=None, ttft_s=ttft_s, tpot_s=tpot_s)
    found = plan(LINE, goal)
    assert found.meets
    assert found.point.users == users
    assert goal.excess(found.point) <= 1
    if found.point.replicas > 1:
        assert goal.excess(operating_point(LINE, users, found.point.replicas - 1)) > 1 or (
            users > (found.point.replicas - 1) * LINE.max_concurrency
        )


def test_unmet_limits_have_their_excess() -> None:
    one_user = plan(LINE, Goal(users=7, replicas=None, tpot_s=0.001))
    assert (one_user.meets, one_user.excess) == (False, pytest.approx(11.0))
    goal = Goal(users=107, replicas=1, ttft_s=0.001, users_may_wait=True)
    all_users = plan(LINE, goal, 107)
    assert (all_users.meets, all_users.point.users) == (False, 107)
    assert all_users.excess == goal.excess(operating_point(LINE, 107)) > goal.excess(operating_point(LINE, 1)) > 1
    crowded = plan(LINE, Goal(users=250, replicas=2))
    assert (crowded.meets, crowded.excess, crowded.point.users) == (False, 1.25, 200)
    assert plan(LineDeployment(speed=1.0, max_concurrency=0), Goal()) is None


def test_equally_missed_limits_are_decided_by_the_duration_of_a_request() -> None:
    goal, faster = Goal(users=20, replicas=1, ttft_s=0.5), LineDeployment(speed=200.0)
    rank, faster_rank = (plan(deployment, goal).rank(deployment, goal) for deployment in (LINE, faster))
    assert rank[:2] == faster_rank[:2] == (True, pytest.approx(4.0))
    assert faster_rank < rank


@given(st.integers(0, 300))
def test_users_without_room_wait_without_changing_rate_or_speed(waiting: int) -> None:
    full, point = operating_point(LINE, 100), operating_point(LINE, 100 + waiting)
    assert (point.tokens_per_s, point.tpot_s) == (full.tokens_per_s, full.tpot_s)
    assert point.ttft_s == pytest.approx(full.ttft_s + waiting / full.requests_per_s)
    assert point.saturated == (waiting > 0)


def test_users_wait_only_if_another_layout_has_room() -> None:
    """A replica gets more users than have room only if another layout has room for them, up to `max_users`."""
    for max_users, replicas in ((None, 3), (120, 3), (125, 2), (250, 1)):
        auto = plan(LINE, Goal(users=250, replicas=None), max_users)
        assert (auto.meets, auto.point.replicas, auto.point.users) == (True, replicas, 250)
    crowded = plan(LINE, Goal(users=250), 125)
    assert (crowded.meets, crowded.excess, crowded.point.users) == (False, 2.0, 125)


@pytest.mark.parametrize("batch", [1, 2, 16, 60])
def test_expected_experts_equal_the_mean_of_random_draws(batch: int) -> None:
    random = np.random.default_rng(batch)
    drawn = [len({int(e) for _ in range(batch) for e in random.choice(32, size=4, replace=False)}) for _ in range(200)]
    error = 4 * float(np.std(drawn)) / 200**0.5 + 1e-9
    assert expected_experts(32, 4, batch) == pytest.approx(float(np.mean(drawn)), abs=error)


def test_streaming_rate_of_70b_in_16_bit_at_150_gb_per_s() -> None:
    """One token per second needs all 141 GB: 150e9 / 141e9 = 1.064 tokens/s."""
    streaming = StreamingBound(weights=Weights(always_bytes=141e9), bytes_per_s=150e9)
    assert streaming.tokens_per_s(1) == pytest.approx(1.064, abs=1e-3)
    assert streaming.tokens_per_s(64) == 64 * streaming.tokens_per_s(1)


@given(
    wanted=st.floats(0.01, 1e6),
    rate=st.floats(1e9, 1e13),
    experts=st.integers(1, 300),
    active_fraction=st.floats(0.01, 1),
    pass_s=st.sampled_from([0.0, 1e-3]),
)
def test_batch_for_a_token_rate_is_the_smallest(
    wanted: float, rate: float, experts: int, active_fraction: float, pass_s: float
) -> None:
    active = max(1, int(experts * active_fraction))
    weights = Weights(always_bytes=1e9, expert_bytes=5e10, experts=experts, active=active)
    streaming = StreamingBound(weights=weights, bytes_per_s=rate, pass_s=pass_s)
    batch = streaming.users_for(wanted)
    assert batch is not None
    assert streaming.tokens_per_s(batch) >= wanted
    if batch > 1:
        assert streaming.tokens_per_s(batch - 1) < wanted


def pausing(think_s: float, max_concurrency: int = 20) -> WaferDeployment:
    """Return a deployment whose users pause. A request alone takes 0.5 + 100 x 0.01 = 1.5 s."""
    return WaferDeployment(
        shape=replace(SHAPE, think_s=think_s),
        max_concurrency=max_concurrency,
        chips=1,
        economics=None,
        token_s=0.01,
        stage_s=0.001,
        prompt_s=0.4,
        chunk_s=0.1,
        delay_s=0.1,
    )


@given(st.integers(1, 2_000), st.sampled_from([0.1, 10.0, 1e4]), st.sampled_from([1, 2, 4, 20, 1_000]))
def test_users_who_pause_follow_the_interactive_response_time_law(
    users: int, think_s: float, max_concurrency: int
) -> None:
    deployment = pausing(think_s, max_concurrency)
    point = operating_point(deployment, users)
    request_s = point.ttft_s + 100 * (point.tpot_s or 0.0)
    assert point.requests_per_s * (request_s + think_s) == pytest.approx(users)
    assert point.in_flight == pytest.approx(point.requests_per_s * request_s)
    full = deployment.steady_state(max_concurrency)
    assert point.requests_per_s <= full.requests_per_s * (1 + 1e-9)
    assert point.saturated == (point.requests_per_s >= 0.999 * full.requests_per_s)
    more = operating_point(deployment, users + 1)
    assert more.ttft_s >= point.ttft_s * (1 - 1e-9)
    assert more.requests_per_s >= point.requests_per_s * (1 - 1e-9)


def test_single_user_who_pauses_never_waits() -> None:
    one, without_pauses = operating_point(pausing(10.0), 1), operating_point(pausing(0.0), 1)
    assert (one.ttft_s, one.tpot_s) == pytest.approx((without_pauses.ttft_s, without_pauses.tpot_s))
    assert one.requests_per_s == pytest.approx(1 / (10.0 + 1 / without_pauses.requests_per_s))


def test_users_without_a_pause_are_all_in_flight() -> None:
    assert [operating_point(LINE, users).in_flight for users in (1, 7, 120)] == [1, 7, 120]
    assert users_with_in_flight(LINE, 40) == 40


@given(st.integers(1, 100), st.sampled_from([0.1, 10.0]))
def test_largest_number_of_users_with_a_number_of_requests_in_flight(in_flight: int, think_s: float) -> None:
    users = users_with_in_flight(pausing(think_s), in_flight)
    assert operating_point(pausing(think_s), users).in_flight <= in_flight + 1e-6
    assert operating_point(pausing(think_s), users + 1).in_flight > in_flight


def test_users_who_pause_need_fewer_replicas() -> None:
    goal = Goal(users=1_000, replicas=None, ttft_s=1.0)
    found, without_pauses = plan(pausing(100.0), goal), plan(pausing(0.0), goal)
    assert (found.meets, without_pauses.meets) == (True, True)
    assert goal.excess(operating_point(pausing(100.0), 1_000, found.point.replicas - 1)) > 1
    assert found.point.replicas < without_pauses.point.replicas / 2
