"""Several prompts in one run: each user's tokens and logits are those of a run of their own, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer
from tiers import slow_but
from tiny_model import latent_spec, tensors, tiny_spec
from trait_specs import POSITIONS, TRAITS, norms_spec

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.sampling import Sampler, Sampling
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phase import phase_run
from wse.compiler.options import OPTIMIZED, Choice
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.remedies import remedies
from wse.compiler.search.search import compile_model
from wse.errors import DoesNotFit
from wse.hardware.spec import WaferSpec
from wse.number_formats import CODINGS
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.expert_groups import DEDICATED

PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3,), (60, 1, 1, 8, 22, 13, 35, 18, 50, 4, 6), (11, 12, 13, 14))
CONTEXT = 24
STEPS = 10
THIN = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
NORMS = norms_spec()
CASES: dict[str, tuple[tuple[int, int], dict[str, Any], Choice]] = {
    "3x3": ((3, 3), {}, replace(THIN, prefill="mesh-gemm", prefill_chunk=3)),
    "4x5": ((4, 5), {}, THIN),
    "1x1": ((1, 1), {}, THIN),
    "two wafers": ((5, 3), {"wafers": 2}, THIN),
    "pipeline": ((4, 6), {"mapping": "pipeline"}, replace(THIN, per_band=2)),
    "untied": ((3, 4), {"wafers": 2, "tied": False}, THIN),
    "drawn": ((4, 5), {"sampling": "host"}, THIN),
    "float16": ((3, 3), {"dtype": "float16"}, THIN),
    **{coding: ((3, 4), {"dtype": coding, "activations": "float32"}, THIN) for coding in CODINGS},
    "latent": ((4, 5), {"spec": latent_spec(layers=2)}, THIN),
    "experts": ((3, 4), {"spec": mixture_spec(MIXTURES["shared"]), "wafers": 2}, THIN),
    "positions": ((4, 5), {"spec": POSITIONS}, THIN),
    "norms": ((3, 4), {"spec": NORMS}, THIN),
    "biased experts": ((3, 4), {"spec": mixture_spec(MIXTURES["biased"])}, THIN),
    "over wafers": ((3, 4), {"mapping": "tensor", "wafers": 3}, THIN),
    "experts apart": ((3, 4), {"spec": mixture_spec(MIXTURES["shared"]), "mapping": "expert", "wafers": 2}, THIN),
    "traits": ((3, 3), {"spec": TRAITS}, replace(THIN, prefill="mesh-gemm", prefill_chunk=3)),
    "attention in the middle": ((4, 9), {"spec": TRAITS}, replace(THIN, attention_cols=4)),
    "latent attention in the middle": ((4, 9), {"spec": latent_spec(layers=2)}, replace(THIN, attention_cols=5)),
}
SECOND_LOOKS = {"1x1", "untied", "positions", "norms", "biased experts", "over wafers"}
"""Cases of which each part is in another as well."""

OWN_EXPERTS = ((4, 5), {"spec": mixture_spec(MIXTURES["shared"]), "experts": DEDICATED}, THIN)


def compiled(
    prompts: Sequence[Sequence[int]],
    mesh: tuple[int, int],
    wanted: dict[str, Any],
    choice: Choice,
    context: int = CONTEXT,
) -> tuple[Engine, Program, WaferSpec]:
    """An engine for a tiny random model, with draws of every user from one seed."""
    spec = wanted.get("spec") or tiny_spec(tied=wanted.get("tied", True))
    asked = {name: value for name, value in wanted.items() if name not in ("spec", "tied")}
    options = region_options(
        context=context, prompt_tokens=tuple(map(len, prompts)), logits_out="all", schedule=OPTIMIZED, **asked
    )
    machine = wafer(*mesh, 1 << 20)
    of_one_user = {"local-maxima", "query-scales"}  # which round otherwise
    of_one_user |= {"norm-scales"} if spec.latent is not None else set()
    choice = replace(choice, rewrites=tuple(one for one in rewrites_of(spec, options) if one[0] not in of_one_user))
    program = compile_choice(spec, machine, SOFTWARE, options, choice)
    draws = [Sampler(Sampling(temperature=1.5), p).draw for p in prompts]
    return Engine(program, spec, tensors(spec).__getitem__, draws), program, machine


class Batch(NamedTuple):
    """What a run of all users made: tokens by step and user, logits ``[step, user, vocabulary]``, words and bytes.

    Attributes:
        costs: What the fabric model has each pass take, with the choice of experts of the run.
        links: Words that left each PE.
        crossed: Bytes from wafer to wafer.
    """

    tokens: list[list[int]]
    logits: npt.NDArray[np.float32]
    costs: list[PhaseCost]
    links: npt.NDArray[np.int64]
    crossed: int


@cache
def batch_run(name: str) -> Batch:
    """The run of a case, or of experts on their own columns."""
    engine, program, machine = compiled(PROMPTS, *CASES.get(name, OWN_EXPERTS))
    fabric, pairs = Fabric(program, machine, SOFTWARE), engine.routing.pairs
    costs = [fabric.prefill_cost(index, dict(pairs)) for index in engine.prefill(*PROMPTS)]
    tokens, logits = [engine.tokens], [engine.logits]
    for step in range(STEPS):
        tokens.append(engine.decode())
        logits.append(engine.logits)
        costs.append(fabric.decode_cost(*(len(prompt) + step for prompt in PROMPTS), pairs=dict(pairs)))
    return Batch(tokens, np.stack(logits), costs, engine.link_words(), sum(engine.streams.crossed.values()))


def users_of(name: str) -> tuple[int, int]:
    """Two of the four users of a case, who are others in the next."""
    first = [*CASES, "own experts"].index(name) % 4
    return first, (first + 1) % 4


@pytest.mark.parametrize("name", slow_but([*CASES, "own experts"], *set(CASES) - SECOND_LOOKS))
def test_a_user_in_a_batch_gets_what_they_get_alone(name: str) -> None:
    mesh, wanted, choice = CASES.get(name, OWN_EXPERTS)
    together = batch_run(name)
    for user in users_of(name):
        prompt = PROMPTS[user]
        engine = compiled([prompt], mesh, wanted, choice, context=len(prompt) + STEPS)[0]
        list(engine.prefill(prompt))
        for step in range(STEPS + 1):
            assert engine.tokens == [together.tokens[step][user]], (user, step)
            np.testing.assert_array_equal(together.logits[step, user], engine.logits[0])
            if step < STEPS:
                engine.decode()


@pytest.mark.parametrize("name", slow_but([*CASES, "own experts"], "own experts", *set(CASES) - SECOND_LOOKS))
def test_words_on_links_and_bytes_that_cross_are_those_of_the_fast_model(name: str) -> None:
    found = batch_run(name)
    assert np.array_equal(sum(cost.links for cost in found.costs), found.links)
    assert sum(int(cost.traffic.hops.sum()) for cost in found.costs) == int(found.links.sum())
    assert sum(int(cost.traffic.bytes.sum()) for cost in found.costs) == found.crossed


@pytest.mark.parametrize("name", ["4x5", "two wafers", "pipeline"])
def test_wavelets_of_a_token_of_each_user_are_those_words(name: str) -> None:
    mesh, wanted, choice = CASES[name]
    _, program, machine = compiled(PROMPTS, mesh, wanted, choice)
    cost = Fabric(program, machine, SOFTWARE).decode_cost(7, 1, 11, 4)
    run = phase_run(program, program.decode, (7, 1, 11, 4), machine, SOFTWARE)
    np.testing.assert_array_equal(run.links, cost.links)
    computes = program.decode.steps.kind == StepKind.COMPUTE
    fast = cost.by_cause.sum(axis=1)
    np.testing.assert_array_equal(run.step_cycles[computes], fast[computes])


def test_all_reduces_are_launched_once_for_all_users() -> None:
    """And carry so many times the words; only caches are shifted user by user."""
    decode = [compiled(prompts, (4, 5), {}, THIN)[1].decode for prompts in (PROMPTS[:1], PROMPTS)]
    lines = [np.flatnonzero(is_of_type(phase.steps, AlongLine)) for phase in decode]
    assert len(lines[0]) == len(lines[1])
    for alone, together in zip(*lines, strict=True):
        assert decode[1].steps.iterations(together) == decode[0].steps.iterations(alone) == 1
        one, four = decode[0].steps.operands(alone, (3,))[5], decode[1].steps.operands(together, (3,))[5]
        assert four == 4 * one or (one, four) == (1, 4)
    shifts = np.flatnonzero(is_of_type(decode[1].steps, CacheShift))
    assert {decode[1].steps.iterations(step) for step in shifts} == {len(PROMPTS)}


def test_prompts_with_equal_chunks_share_their_steps() -> None:
    _, program, _ = compiled(PROMPTS, (4, 5), {}, THIN)
    assert [(phase.user, phase.cached, phase.tokens) for phase in program.prefill] == [
        *((0, 0, 4), (0, 4, 3), (1, 0, 1)),
        *((2, 0, 4), (2, 4, 4), (2, 8, 3), (3, 0, 4)),
    ]
    steps = [phase.steps for phase in program.prefill]
    assert steps[0] == steps[3] == steps[4]  # whole chunks with more to come
    assert steps[1] == steps[5]  # three tokens at the end
    assert len(set(steps)) == 4


def test_more_users_than_fit_are_refused() -> None:
    machine, spec = wafer(3, 3, 60_000), tiny_spec()
    options = region_options(context=200, prompt_tokens=(4, 4))
    assert compile_model(spec, machine, SOFTWARE, options).fits
    with pytest.raises(DoesNotFit, match="KV cache"):
        compile_model(spec, machine, SOFTWARE, replace(options, prompt_tokens=(4,) * 16))
    few = wafer(3, 3, 45_000)
    assert "a single prompt" in remedies(spec, few, few, SOFTWARE, options)
    assert "at most 3 prompts" in remedies(spec, few, machine, SOFTWARE, replace(options, prompt_tokens=(4,) * 16))
