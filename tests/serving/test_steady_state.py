"""Tests of the closed form for a constant number of requests in flight, against rounds counted_rounds one by one."""

import sys
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import RequestShape
from wse.serving.steady_state import NEGLIGIBLE, ClosedLoop, PromptRounds, solve


@dataclass(frozen=True)
class PlainRounds:
    """Costs of rounds that do not depend on the number of requests."""

    decode_s: float
    prompt: PromptRounds

    delay_s: float = 0.0

    def pass_s(self, decoding: float, prompts: float) -> float:
        return self.prompt.round_s if prompts else self.decode_s

    def decode_round_s(self, decoding: float) -> float:
        return self.decode_s

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        return self.prompt


def counted_rounds(costs: PlainRounds, new_tokens: int, requests: int) -> tuple[float, float]:
    """Return the mean seconds of an answer and the requests per second, from rounds counted_rounds one by one.

    The first requests start at equal distances. A prompt is read in whole rounds, and the next prompt waits for it.
    """
    rounds, answers, left = int(costs.prompt.rounds), [], 0
    reading, decoding, waiting, now = [0, rounds], {}, [], 0.0
    spread = (rounds + new_tokens - 1) // requests
    starts = {spread * each: each for each in range(1, requests)}
    for step in range(200 * (rounds + new_tokens)):
        if step in starts:
            waiting.append(starts[step])
        if reading is None and waiting:
            reading = [waiting.pop(0), rounds]
        now += costs.decode_s if reading is None else costs.prompt.round_s
        for request in list(decoding):
            decoding[request][0] -= 1
            if not decoding[request][0]:
                answers.append(now - decoding.pop(request)[1])
                waiting.append(request)
                left += 1
        if reading is not None:
            reading[1] -= 1
            if not reading[1]:
                decoding[reading[0]] = [new_tokens - 1, now]
                reading = None
    half = answers[len(answers) // 2 :]
    return sum(half) / len(half), left / now


@pytest.mark.parametrize("requests", [1, 2, 5, 10])
@pytest.mark.parametrize("rounds", [1, 3])
def test_steady_state_equals_counted_rounds(requests: int, rounds: int) -> None:
    costs = PlainRounds(1.0, PromptRounds(rounds, 4.0))
    state = ClosedLoop(costs, 61).steady_state(requests)
    answer_s, rate = counted_rounds(costs, 61, requests)
    wait_s = min(1, requests - 1) * costs.decode_s / 2
    assert state.answer_s == pytest.approx(answer_s, rel=0.02)
    assert state.requests_per_s == pytest.approx(rate, rel=0.03)
    assert state.ttft_s == pytest.approx(rounds * 4 + wait_s, rel=0.002)


@pytest.mark.parametrize("requests", [1.0, 1.01, 1.5, 2.0, 4.0])
def test_wait_for_a_running_pass_does_not_lower_the_rate_of_one_token_requests(requests: float) -> None:
    """One request at a time takes 1 s. A wait of 2 s for the pass of another request would make two take 3 s."""
    loop = ClosedLoop(PlainRounds(decode_s=4.0, prompt=PromptRounds(rounds=1, round_s=1.0, fill=1e-3)), 1)
    state = loop.steady_state(requests)
    assert state.requests_per_s >= 1.0
    assert state.ttft_s == pytest.approx(requests / state.requests_per_s)


def test_saturated_rounds_only_make_more_requests_wait() -> None:
    """The machine is saturated from N requests on, where N R f = R + T: 22 requests here, with two prompts a round."""
    loop = ClosedLoop(PlainRounds(1.0, PromptRounds(1, 5.0, fill=0.5)), 11)
    full, more = loop.steady_state(30), loop.steady_state(60)
    assert full.saturated
    assert full.answer_s == more.answer_s == pytest.approx(10 * 5.0)
    assert full.requests_per_s == more.requests_per_s == pytest.approx(2 / 5)
    assert more.ttft_s - full.ttft_s == pytest.approx(30 / full.requests_per_s)
    assert not loop.steady_state(20).saturated


@given(
    slots=st.sampled_from([1, 4]),
    token_s=st.floats(1e-4, 1e-2),
    stage=st.floats(0.01, 1),
    prompt=st.floats(0.1, 100),
    chunks=st.sampled_from([1, 3, 50]),
    delay=st.floats(0, 3),
    new_tokens=st.sampled_from([1, 2, 3, 5, 12, 50, 1000]),
    users=st.integers(1, 150),
)
@example(slots=4, token_s=1e-3, stage=0.92, prompt=0.27, chunks=1, delay=0.41, new_tokens=2, users=2)
def test_wafers_lose_no_throughput_with_more_users(
    slots: int, token_s: float, stage: float, prompt: float, chunks: int, delay: float, new_tokens: int, users: int
) -> None:
    wafers = WaferDeployment(
        shape=RequestShape(prompt_tokens=100, new_tokens=new_tokens),
        max_concurrency=200,
        chips=1,
        economics=None,
        slots=slots,
        token_s=token_s,
        stage_s=stage * token_s,
        prompt_s=prompt * token_s,
        chunk_s=prompt * token_s / chunks,
        delay_s=delay * token_s,
    )
    few, many = wafers.steady_state(users), wafers.steady_state(users + 1)
    rounding = 1 + 1e-7
    assert few.ttft_s <= many.ttft_s * rounding
    assert few.answer_s <= many.answer_s * rounding
    assert few.requests_per_s <= many.requests_per_s * rounding
    busiest_s = wafers.prompt_s + (new_tokens - 1) * wafers.stage_s / slots
    assert many.requests_per_s * busiest_s <= rounding, "no stage is busy for more than all of the time"
    assert (users + 1) / many.requests_per_s == pytest.approx(many.ttft_s + many.answer_s), "Little's law"
    if few.saturated:
        most = wafers.steady_state(wafers.max_concurrency)
        assert (1 - NEGLIGIBLE) * most.requests_per_s <= few.requests_per_s * rounding


@given(
    st.floats(0.1, 1e4), st.floats(0.01, 100), st.floats(0, 10), st.sampled_from([0.3, 1.0, 3.0]), st.floats(0.01, 0.99)
)
@example(scale=1023 / 0.125, slope=1.8612130814312047, offset=1.8612130814312047, power=1.0, solution_fraction=0.9)
@example(scale=0.1, slope=0.01171875, offset=2.0, power=3.0, solution_fraction=0.015625)
def test_rising_function_is_solved(
    scale: float, slope: float, offset: float, power: float, solution_fraction: float
) -> None:
    """Use a function with a kink whose solution is known."""

    def rising(x: float) -> float:
        return max(slope * x**power - offset, 2 * (slope * x**power - offset))

    solution = solution_fraction * scale
    # Error of the solution because the function is rounded.
    rounding = 4 * sys.float_info.epsilon * offset / (slope * power * solution ** (power - 1))
    found = solve(rising, rising(solution), 0.0, scale)
    assert found == pytest.approx(solution, rel=1e-6, abs=1e-9 * scale + rounding)
