"""Tests of batches: tokens and logits of each user equal those of a run with this user alone, bit for bit."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from session import SOFTWARE, check_traffic
from tiers import slow_but
from user_cases import CASES, user_engine

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.sampling import Sampler, Sampling
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.phase import phase_run
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import is_of_type

PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3,), (60, 1, 1, 8, 22, 13, 35, 18, 50, 4, 6), (11, 12, 13, 14))
CONTEXT = 24
STEPS = 4
COVERED = {"baseline", "more rows", "one row", "own weights", "1x1", "untied", "positions", "norms", "biased experts"}
"""Cases whose features all occur in other cases as well."""
NAMES = [name for name in CASES if name not in COVERED]
QUICK = (
    "4x5",
    "square",
    "pipeline",
    "over wafers",
    "latent",
    "linear",
    "own experts in fp8",
    "experts apart",
    "traits",
)


def compiled(prompts: Sequence[Sequence[int]], name: str, context: int = CONTEXT) -> tuple[Engine, Program, WaferSpec]:
    """Return an engine, its Program and its wafer, without the rewrites that change the rounding of logits.

    If the host draws, the draws of every user start from the same seed.
    """
    excluded_rewrites = {"local-maxima", "query-scales"} | ({"norm-scales"} if "latent" in name else set())
    draws = [Sampler(Sampling(temperature=1.5), p).draw for p in prompts]
    return user_engine(prompts, name, draws, without=excluded_rewrites, context=context)


class Batch(NamedTuple):
    """Results of a run of all users.

    Attributes:
        tokens: Tokens by step and user.
        logits: Logits `[step, user, vocabulary]`.
        costs: Fabric cost of each pass, with the experts that the run selected.
        engine: The engine after the run.
    """

    tokens: list[list[int]]
    logits: npt.NDArray[np.float32]
    costs: list[PhaseCost]
    engine: Engine


@cache
def batch_run(name: str) -> Batch:
    """Prefill all prompts, decode STEPS tokens of each, and return the results."""
    engine, program, machine = compiled(PROMPTS, name)
    fabric, pairs = Fabric(program, machine, SOFTWARE), engine.routing.pairs
    costs = [fabric.prefill_cost(index, dict(pairs)) for index in engine.prefill(*PROMPTS)]
    tokens, logits = [engine.tokens], [engine.logits]
    for step in range(STEPS):
        tokens.append(engine.decode())
        logits.append(engine.logits)
        costs.append(fabric.decode_cost(*(len(prompt) + step for prompt in PROMPTS), expert_tokens=dict(pairs)))
    return Batch(tokens, np.stack(logits), costs, engine)


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_user_in_a_batch_gets_the_tokens_and_logits_of_a_single_run(name: str) -> None:
    """One of the four users is compared, a different one in each case."""
    batch, user = batch_run(name), NAMES.index(name) % 4
    prompt = PROMPTS[user]
    engine = compiled([prompt], name, len(prompt) + STEPS)[0]
    list(engine.prefill(prompt))
    for step in range(STEPS + 1):
        assert engine.tokens == [batch.tokens[step][user]], (user, step)
        np.testing.assert_array_equal(batch.logits[step, user], engine.logits[0])
        if step < STEPS:
            engine.decode()


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_link_words_and_crossing_bytes_are_those_of_the_fabric_model(name: str) -> None:
    check_traffic(batch_run(name).engine, batch_run(name).costs)


@pytest.mark.parametrize("name", ["4x5", "two wafers", "pipeline", pytest.param("linear", marks=pytest.mark.slow)])
def test_wavelets_on_links_are_the_words_of_the_fabric_model(name: str) -> None:
    _, program, machine = compiled(PROMPTS, name)
    cost = Fabric(program, machine, SOFTWARE).decode_cost(7, 1, 11, 4)
    run = phase_run(program, program.decode, (7, 1, 11, 4), machine, SOFTWARE)
    np.testing.assert_array_equal(run.links, cost.links)
    computes = program.decode.steps.kind == StepKind.COMPUTE
    fabric_cycles = cost.by_cause.sum(axis=1)
    np.testing.assert_array_equal(run.step_cycles[computes], fabric_cycles[computes])


def test_all_reduces_run_once_for_all_users() -> None:
    """An all-reduce of four users moves four times the words of one user. Only cache shifts run once per user."""
    decode = [compiled(prompts, "4x5")[1].decode for prompts in (PROMPTS[:1], PROMPTS)]
    lines = [np.flatnonzero(is_of_type(phase.steps, AlongLine)) for phase in decode]
    assert len(lines[0]) == len(lines[1])
    for alone, together in zip(*lines, strict=True):
        assert decode[1].steps.iterations(together) == decode[0].steps.iterations(alone) == 1
        one, four = decode[0].steps.operands(alone, (3,))[5], decode[1].steps.operands(together, (3,))[5]
        assert four == 4 * one or (one, four) == (1, 4)
    shifts = np.flatnonzero(is_of_type(decode[1].steps, CacheShift))
    assert {decode[1].steps.iterations(step) for step in shifts} == {len(PROMPTS)}


def test_prompts_with_equal_chunks_share_their_steps() -> None:
    _, program, _ = compiled(PROMPTS, "4x5")
    assert [(phase.user, phase.cached, phase.tokens) for phase in program.prefill] == [
        *((0, 0, 4), (0, 4, 3), (1, 0, 1)),
        *((2, 0, 4), (2, 4, 4), (2, 8, 3), (3, 0, 4)),
    ]
    steps = [phase.steps for phase in program.prefill]
    assert steps[0] == steps[3] == steps[4]  # full chunks that are not the last of a prompt
    assert steps[1] == steps[5]  # three tokens at the end
    assert len(set(steps)) == 4
