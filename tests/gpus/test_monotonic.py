"""Tests of properties of GPU times over the number of users: monotonic, continuous, and no loss of throughput."""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.spec import ModelSpec
from wse.serving.deployment.gpus import MAX_BATCHED_TOKENS, GpuDeployment
from wse.serving.gpus.load import known_gpus, known_stacks, load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism, Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import FORMATS, PLAIN_BITS
from wse.serving.operating_point import RequestShape
from wse.serving.simulation.costs.gpu_costs import GpuCosts
from wse.serving.simulation.costs.pass_costs import PromptPart
from wse.serving.steady_state import ClosedLoop, SteadyState
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.gpus.drafting import GpuDrafter
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.gpus.study import estimate_on_gpus
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

ROUNDING = 1 + 1e-9
BISECTED = 1 + 1e-7
"""Tolerance for steady states, which are found by bisection."""
EXAMPLES = settings(max_examples=60, deadline=None)


@cache
def spec_of(name: str) -> ModelSpec:
    return read_config(CONFIGURATIONS[name])


@st.composite
def servers(draw: st.DrawFn) -> GpuServer:
    """Draw a server: any model, weight format, GPUs, stack and parallelism; the weights need not fit."""
    gpu = load_gpu(draw(st.sampled_from(known_gpus())))
    return GpuServer(
        spec=spec_of(draw(st.sampled_from(sorted(CONFIGURATIONS)))),
        weights=FORMATS[draw(st.sampled_from(sorted(FORMATS)))],
        gpu=gpu,
        stack=load_stack(draw(st.sampled_from(known_stacks())), gpu.generation),
        parallelism=Parallelism(
            gpus=draw(st.integers(1, gpu.linked_gpus)),
            attention_by_data=draw(st.booleans()),
            whole_experts=draw(st.booleans()),
        ),
    )


@dataclass(frozen=True)
class Load:
    """A server with the lengths of its requests in tokens."""

    server: GpuServer
    prompt: int
    new: int

    def at(self, users: float) -> SteadyState:
        """Return the steady state with `users` requests in flight."""
        shape = RequestShape(prompt_tokens=self.prompt, new_tokens=self.new)
        return ClosedLoop(GpuDeployment(server=self.server, shape=shape, economics=None), self.new).steady_state(users)

    def kinks(self) -> tuple[float, ...]:
        """Return the numbers of users at which a formula of the model changes."""
        one_shot = self.server.stack.one_shot_bytes / (self.server.spec.hidden_size * PLAIN_BITS / 8)
        gpus = self.server.parallelism.gpus
        found = (1.0, 2.0, 1.0 + self.new, one_shot, one_shot * gpus / 2, one_shot - self.prompt)
        return tuple(users for users in found if users >= 1)


LENGTHS = st.one_of(st.integers(1, 32), st.integers(33, 100_000))
LOADS = st.builds(Load, servers(), LENGTHS, LENGTHS)
USERS = st.one_of(st.integers(1, 4096).map(float), st.floats(1, 4096))
STEPS = st.one_of(st.just(1.0), st.floats(1e-3, 512))


@EXAMPLES
@given(LOADS, USERS, STEPS)
def test_user_is_not_faster_with_more_users(load: Load, users: float, step: float) -> None:
    few, many = load.at(users), load.at(users + step)
    assert few.ttft_s <= many.ttft_s * BISECTED
    assert few.answer_s <= many.answer_s * BISECTED


@EXAMPLES
@given(LOADS, USERS, STEPS)
def test_more_users_do_not_lower_throughput(load: Load, users: float, step: float) -> None:
    """Check the rate of decode passes alone, and the rate of whole requests."""
    context = load.prompt + load.new / 2
    few, many = (n / load.server.decode_s(n, context) for n in (users, users + step))
    assert few <= many * ROUNDING
    assert load.at(users).requests_per_s <= load.at(users + step).requests_per_s * BISECTED


@EXAMPLES
@given(LOADS, st.data())
def test_times_are_continuous_in_users(load: Load, data: st.DataObject) -> None:
    """Include the kinks: from one prompt to several, and from one-shot to two-step all-reduces."""
    at = data.draw(st.one_of(st.sampled_from(load.kinks()), st.floats(1, 4096)))
    below, above = max(1.0, at * (1 - 1e-9)), at * (1 + 1e-9)
    few, many = load.at(below), load.at(above)
    assert many.answer_s == pytest.approx(few.answer_s, rel=1e-6, abs=1e-12)
    assert many.ttft_s == pytest.approx(few.ttft_s, rel=1e-6)


@EXAMPLES
@given(servers(), USERS, st.integers(1, 64), st.integers(0, 100_000), LENGTHS)
def test_more_tokens_or_context_take_no_less_time(
    server: GpuServer, users: float, new: int, context: int, more: int
) -> None:
    assert server.decode_s(users, context) <= server.decode_s(users, context + more) * ROUNDING
    assert server.verify_s(users, new, context) <= server.verify_s(users, new + 1, context) * ROUNDING
    assert server.verify_s(users, new, context) <= server.verify_s(users + 1, new, context) * ROUNDING
    assert server.prefill_s(new, context) <= server.prefill_s(new + more, context) * ROUNDING
    assert server.prefill_s(new, context) <= server.prefill_s(new, context + more) * ROUNDING


@EXAMPLES
@given(LOADS, USERS, st.integers(1, 2_000))
def test_longer_prompts_take_no_less_time(load: Load, users: float, more: int) -> None:
    """Compare prompts that need the same number of passes.

    With one pass more, passes are shorter, and a request can be 3 % faster.
    """
    longer = Load(load.server, load.prompt + more, load.new)
    passes = [math.ceil(prompt / MAX_BATCHED_TOKENS) for prompt in (load.prompt, longer.prompt)]
    assume(passes[0] == passes[1])
    short, long = load.at(users), longer.at(users)
    assert short.ttft_s <= long.ttft_s * BISECTED
    assert short.ttft_s + short.answer_s <= (long.ttft_s + long.answer_s) * BISECTED


@EXAMPLES
@given(servers(), st.integers(0, 1024), st.integers(0, 100_000), st.lists(st.integers(1, 2_000), max_size=4))
def test_rounds_of_the_simulation_equal_passes_of_the_roofline(
    server: GpuServer, users: int, context: int, prompts: list[int]
) -> None:
    assume(users or prompts)
    costs, parts = GpuCosts(server=server, context=context + 1), [PromptPart(tokens, 0) for tokens in prompts]
    round_s = costs.round_s(users, context, parts)
    groups = [Tokens(users=users, new=1, context=context)] if users else []
    groups += [Tokens(users=1, new=tokens, context=0) for tokens in prompts]
    assert round_s == server.pass_time(groups).total_s
    assert round_s <= costs.round_s(users + 1, context, parts) * ROUNDING
    assert round_s <= costs.round_s(users, context, [*parts, PromptPart(1, 0)]) * ROUNDING


def test_round_with_drafts_includes_drafting_and_verification() -> None:
    """A round verifies 3 draft tokens plus one in a pass for all users, and runs the draft head 3 times."""
    gpu = load_gpu("h100")
    stack = load_stack("vllm", gpu.generation)
    server = GpuServer(spec=spec_of("llama-3-8b"), weights=FORMATS["bfloat16"], gpu=gpu, stack=stack)
    plain = GpuCosts(server=server, context=2048)
    drafted = replace(plain, server=replace(server, draft=server.draft_head), draft_tokens=3)
    head_s = server.draft_head.draft_s(7, 1, 500)
    assert drafted.round_s(7, 500, ()) == pytest.approx(server.verify_s(7, 4, 500) + 3 * head_s)
    assert drafted.round_s(0, 0, [PromptPart(300, 64)]) == plain.round_s(0, 0, [PromptPart(300, 64)])
    assert 1 / 32 < head_s / server.decode_s(7, 500) < 1 / 4  # the draft head has one layer and the output head


@pytest.mark.parametrize(
    ("model", "gpu"), [("llama-3.1-70b", "h200"), pytest.param("deepseek-v3", "b200", marks=pytest.mark.slow)]
)
def test_user_with_drafts_is_not_faster_with_more_users(model: str, gpu: str) -> None:
    """Include the range of 100 to 160 users, where verified tokens make vectors too long for a one-shot all-reduce."""
    request = make_request(EstimateRequest, model=model, gpu=gpu, gpus=8, stack="trtllm", dtype="fp8", draft="typical")
    prepared = prepare_gpu_estimate(request)
    rates = []
    for users in (*range(1, 100, 9), *range(100, 160, 4), *range(160, 1000, 80)):
        served = UsersOfDrafts(drafter=GpuDrafter(prepared=prepared), users=users)
        _, gain = served.best_row(prepared.acceptance.curve)
        rates.append((users, gain / served.plain.tpot_s))
    for (few, fast), (many, slow) in pairwise(rates):
        assert slow <= fast * ROUNDING, (few, many)


def test_33rd_user_of_eight_h200_makes_no_user_faster() -> None:
    """Vectors of 32 users are the longest for a one-shot all-reduce.

    Without a time that is monotonic in the length, 33 users had 71.8 tokens/s each, but 32 users only 59.3.
    """
    rates = {}
    for users in (32, 33, 44, 64):
        request = make_request(EstimateRequest, model="llama-3.1-70b", gpu="h200", gpus=8, batch=users)
        rates[users] = estimate_on_gpus(request).decode
    per_user = [rate.tokens_per_s_per_user for rate in rates.values()]
    assert per_user == pytest.approx([60.9, 60.6, 56.8, 51.0], rel=0.002)
    assert [rate.tokens_per_s for rate in rates.values()] == pytest.approx([1943, 1992, 2492, 3257], rel=0.002)
