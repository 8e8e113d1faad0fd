"""Tests of the costs of passes in serving simulations on wafers, and of the number of batch slots on GPUs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiers import slow_but

import wse
from wse.backends.fabric.model import Fabric
from wse.compiler.options import REPORT
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Compilation
from wse.errors import BadInput
from wse.program.program import Program
from wse.serving.simulation.costs.pass_costs import PromptPart
from wse.serving.simulation.costs.staged_costs import StagedCosts
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.estimate.drafts.placement import place_draft, place_head
from wse.studies.estimate.drafts.verify_passes import VerifyPasses
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.sram import kv_capacity_tokens, users_at
from wse.studies.serve_sim.machines.drafts import drafted_costs
from wse.studies.serve_sim.machines.wafer_costs import wafer_costs

REQUEST = make_request(
    EstimateRequest, model="story", mesh="24x24", mapping="region", schedule="baseline", prompt_len=64, new_tokens=64
)
Compiled = tuple[PreparedEstimate, Compilation, StagedCosts]


@pytest.fixture(scope="module", params=[1, 2])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """Compile REQUEST on one wafer with a single stage, or on two wafers as a pipeline; add its pass costs."""
    on_wafers = replace(REQUEST, wafers=request.param, mapping="region" if request.param == 1 else "pipeline")
    prepared = prepare_estimate(on_wafers)
    compilation = compile_with_remedies(prepared)
    return prepared, compilation, wafer_costs(prepared, compilation)


def fabric_for_prompts(
    prepared: PreparedEstimate, compilation: Compilation, prompts: tuple[int, ...], chunk: int | None = None
) -> Fabric:
    """Compile the same layout for prompts of these lengths, and return its timing model.

    Args:
        prepared: Model and wafer.
        compilation: The layout.
        prompts: Prompt length of each user, in tokens.
        chunk: Tokens per prompt chunk; None keeps that of the layout.
    """
    options = replace(compilation.options, prompt_tokens=prompts, capacity=REPORT)
    choice = replace(compilation.choice, prefill_chunk=chunk or compilation.choice.prefill_chunk)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, options, choice)
    return Fabric(program, prepared.wafer, prepared.software)


def test_round_of_one_user_takes_a_pass_of_one_user(compiled: Compiled) -> None:
    prepared, compilation, costs = compiled
    fabric = fabric_for_prompts(prepared, compilation, (1,))
    for context in (costs.contexts[0], costs.contexts[4], costs.contexts[-1]):
        assert costs.round_s(1, context, ()) == pytest.approx(
            fabric.decode_cost(context).cycles / prepared.wafer.clock_hz
        )


def test_pass_with_four_slots_is_timed_for_four_users() -> None:
    prepared = prepare_estimate(replace_options(REQUEST, batch=4, mapping="pipeline", wafers=2))
    compilation = compile_with_remedies(prepared)
    costs = wafer_costs(prepared, compilation)
    fabric = fabric_for_prompts(prepared, compilation, (1,) * 4)
    assert costs.decode.slots == 4
    index = costs.contexts.index(64)
    cycles = fabric.decode_cost(*(64,) * 4).cycles
    assert costs.decode.passes[index].latency_s == pytest.approx(cycles / prepared.wafer.clock_hz)
    assert costs.decode.passes[index].busy_s <= costs.decode.passes[index].latency_s


def test_prompt_takes_the_time_of_its_chunks(compiled: Compiled) -> None:
    """On one stage, the chunks of a prompt run one after another. The last chunk may be shorter."""
    prepared, compilation, costs = compiled
    if len(compilation.program.stages) > 1:
        pytest.skip("chunks overlap on several stages")
    for prompt in (costs.chunk_tokens, 64, costs.chunk_tokens + 1):
        fabric = fabric_for_prompts(prepared, compilation, (prompt,), costs.chunk_tokens)
        cycles = sum(fabric.prefill_cost(index).cycles for index in range(len(fabric.program.prefill)))
        seconds_alone = cycles / prepared.wafer.clock_hz - costs.host_s / 2
        part = PromptPart(prompt, 0)
        seconds = costs.round_s(0, 0, [part]) + costs.drain_s(part)
        assert seconds == pytest.approx(seconds_alone, rel=0.03 if prompt % costs.chunk_tokens else 1e-9)


def test_room_for_kv_caches_is_that_of_the_compiled_program(compiled: Compiled) -> None:
    prepared, compilation, costs = compiled
    longest = compilation.options.context - 1
    program: Program = fabric_for_prompts(prepared, compilation, (longest,), costs.chunk_tokens).program
    tokens = 64 + 64
    block = costs.kv_block_tokens
    assert block in {stage.rect.rows for stage in program.stages}
    assert costs.kv_capacity_tokens // (-(-tokens // block) * block) == users_at(program, tokens)
    assert costs.kv_capacity_tokens >= kv_capacity_tokens(program) // block * block


@pytest.mark.slow
@pytest.mark.parametrize("model", [None, "story-draft"])
def test_verification_passes_cost_the_time_of_pass_and_draft(compiled: Compiled, model: str | None) -> None:
    """The cost of a round includes the draft. A draft head on the only region cannot overlap with the model."""
    prepared, compilation, plain = compiled
    drafting = prepare_estimate(replace_options(prepared.request, draft="0.9,0.8,0.7", draft_model=model))
    served = drafted_costs(drafting, compilation, 3)
    costs, drafts = served.costs, served.drafts
    assert drafts.tokens_per_pass == pytest.approx(1 + 0.9 + 0.72 + 0.504)
    if model is None:
        verify = VerifyPasses(place_head(drafting).prepared, served.compilation, has_head=True).in_the_middle(4).model_s
    else:
        assert served.compilation is compilation
        verify = VerifyPasses(prepared, compilation, has_head=False).in_the_middle(4).model_s
    middle = prepared.middle_context[0]
    assert costs.round_s(1, middle, ()) == pytest.approx(verify + drafts.draft_s, rel=0.02)
    assert drafts.verify_s == pytest.approx(verify, rel=1e-9 if model is None else 0.05)
    work, whole = costs.work_s(1, middle, ()), costs.round_s(1, middle, ())
    if prepared.options.wafers > 1:
        assert drafts.draft_s < work < whole
    elif model is None:
        assert work == pytest.approx(whole)
    else:  # the draft model has its own region, so it overlaps with the model
        assert work == pytest.approx(verify, rel=0.02)
    assert costs.round_s(8, middle, ()) == pytest.approx(8 * work)
    if model is None and prepared.options.wafers == 1:  # weights and KV cache of the head reduce the room
        assert costs.kv_capacity_tokens < plain.kv_capacity_tokens
    elif model is None:  # with the head, each wafer has three layers; without it, the fullest already has three
        assert costs.kv_capacity_tokens == plain.kv_capacity_tokens
    else:
        draft = place_draft(drafting, compilation).compilation
        assert costs.kv_capacity_tokens == min(plain.kv_capacity_tokens, kv_capacity_tokens(draft.program))


MACHINES: tuple[dict[str, Any], ...] = (
    {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 1024, "new_tokens": 1024},
    {"model": "gpt-oss-20b", "gpu": "h100", "prompt_len": 6000, "new_tokens": 1001},
    {"model": "gemma-2-9b", "gpu": "h100", "prompt_len": 100, "new_tokens": 30},
    {"model": "gemma-2-9b", "gpu": "h100", "draft": "0.9,0.8", "prompt_len": 6000, "new_tokens": 1001},
    {"model": "deepseek-r1", "gpu": "h200", "gpus": 8, "parallelism": "data", "prompt_len": 1024, "new_tokens": 1024},
)
WINDOWED: dict[str, Any] = {"model": "gpt-oss-20b", "gpu": "h100", "prompt_len": 4096, "new_tokens": 200}


@pytest.mark.parametrize(
    "options", slow_but(MACHINES, MACHINES[0], MACHINES[3]), ids=lambda options: "-".join(map(str, options.values()))
)
def test_batch_slots_are_limited_by_the_users_that_fit(options: dict[str, Any]) -> None:
    estimate = wse.estimate(**options)
    users = estimate.serving.max_users if estimate.drafts is None else estimate.drafts.max_users
    served = wse.serve_sim(**options, requests=9)
    assert served.inputs["max_users"] == served.machine.kv_capacity_users == users
    with pytest.raises(BadInput, match=f"--max-users {users + 1}: .* give at most {users}, or more"):
        wse.serve_sim(**options, requests=9, max_users=users + 1)


def test_kv_cache_use_of_windowed_layers_is_limited_by_the_window() -> None:
    """Half of the layers have windows of 128 tokens. Without windows about half as many users would fit."""
    served = wse.serve_sim(**WINDOWED, requests=500, load=0.3)
    capacity_tokens = served.machine.kv_capacity_tokens
    assert served.machine.kv_capacity_users == 1024 > 1.7 * capacity_tokens / 4304
    in_flight = served.served.little.in_system  # no request waits at this load
    assert served.served.use.kv == pytest.approx(in_flight * (4304 + 128) / 2 / capacity_tokens, rel=0.05)


def test_stack_file_limits_the_number_of_users(tmp_path: Path) -> None:
    stack = tmp_path / "own.toml"
    stack.write_text('base = "vllm"\nmax_sequences = 100\n')
    assert wse.estimate(**WINDOWED, stack=stack).serving.max_users == 100
    assert wse.serve_sim(**WINDOWED, stack=stack, requests=9).inputs["max_users"] == 100
