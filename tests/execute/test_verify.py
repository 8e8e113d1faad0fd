"""Tests of verification passes: their ids and logits are those of tokens that are decoded one by one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from session import SOFTWARE, check_traffic
from tiers import slow_but
from user_cases import CASES, user_engine

from wse.backends.execute.engine import Engine
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.phase import phase_run
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.program import Program

PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3, 11))
TOKENS = 5
ACCEPTED = (5, 2, 1, 4, 3)
"""Tokens that are accepted of each verification pass. One token is decoded after each pass."""
GENERATED = sum(ACCEPTED) + len(ACCEPTED)
CONTEXT = len(PROMPTS[0]) + GENERATED + TOKENS
SKIPPED = ("1x1", "two wafers", "drawn", "float16", "fp8", "int4", "mxfp4", "biased experts", "experts in int4")
"""Cases that these tests leave out to save time."""
REFUSED = ("linear", "linear over wafers")
"""Cases of models with linear attention, whose state cannot drop tokens, so that drafts are refused."""
NAMES = [name for name in CASES if name not in (*SKIPPED, *REFUSED)]
QUICK = ("4x5", "latent", "own experts", "traits", "latent attention in the middle")


def compiled_with_verify(
    prompts: Sequence[Sequence[int]], name: str, **options: Any
) -> tuple[Engine, Program, WaferSpec]:
    """Return an engine with verification passes over TOKENS tokens, its Program and its wafer.

    If the host draws, it draws the token with the largest logit.
    """
    draws = [lambda logits: int(logits.argmax())] * len(prompts)
    return user_engine(prompts, name, draws, context=CONTEXT, verify_tokens=TOKENS, **options)


def read_prompts(engine: Engine, prompts: Sequence[Sequence[int]]) -> list[int]:
    """Prefill the prompts and return the first new token of each."""
    list(engine.prefill(*prompts))
    return engine.tokens


def one_by_one(engine: Engine, prompt: Sequence[int]) -> tuple[list[int], npt.NDArray[np.float32]]:
    """Return the ids that are decoded after a prompt, and the logits `[tokens, vocabulary]` of these ids."""
    tokens, logits = read_prompts(engine, [prompt]), [engine.logits[0]]
    while len(tokens) < GENERATED + TOKENS:
        tokens += engine.decode()
        logits.append(engine.logits[0])
    return tokens, np.stack(logits)


def draft(tokens: Sequence[int], first: int, accepted: int) -> list[int]:
    """Return TOKENS tokens to verify, starting at index ``first``; those after the first ``accepted`` are wrong."""
    correct = list(tokens[first : first + TOKENS])
    return [*correct[:accepted], *((token + 1) % 60 for token in correct[accepted:])]


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_verify_ids_and_logits_are_those_of_single_tokens(name: str) -> None:
    engine, _, _ = compiled_with_verify(PROMPTS[:1], name)
    tokens, logits = one_by_one(engine, PROMPTS[0])
    allowed = 0.0 if name == "one row" else 2e-5 * float(np.abs(logits).max())
    engine, _, _ = compiled_with_verify(PROMPTS[:1], name)
    assert read_prompts(engine, PROMPTS[:1]) == tokens[:1]
    at = 0
    for accepted in ACCEPTED:
        ids = engine.verify(draft(tokens, at, accepted))
        assert ids[:accepted] == tokens[at + 1 : at + 1 + accepted]
        np.testing.assert_allclose(
            engine.verified_logits[:accepted], logits[at + 1 : at + 1 + accepted], rtol=0, atol=allowed
        )
        engine.keep(accepted)
        at += accepted + 1
        assert engine.decode() == tokens[at : at + 1]
        np.testing.assert_allclose(engine.logits[0], logits[at], rtol=0, atol=allowed)


@pytest.mark.parametrize("name", ["4x5", "untied", "own experts", "attention in the middle"])
def test_verify_words_and_crossing_bytes_are_those_of_the_fabric_model(name: str) -> None:
    engine, program, machine = compiled_with_verify(PROMPTS[:1], name)
    fabric, pairs = Fabric(program, machine, SOFTWARE), engine.routing.pairs
    costs: list[PhaseCost] = [fabric.prefill_cost(index, dict(pairs)) for index in engine.prefill(*PROMPTS[:1])]
    length = len(PROMPTS[0])
    for accepted in ACCEPTED:
        engine.verify(range(TOKENS))
        costs.append(fabric.verify_cost(length, dict(pairs)))
        engine.keep(accepted)
        length += accepted
    check_traffic(engine, costs)


@pytest.mark.parametrize(
    "name", slow_but(["4x5", "pipeline", "latent", "attention in the middle"], "pipeline", "latent")
)
def test_verify_does_not_change_other_users(name: str) -> None:
    """Two users are verified alternately. Each gets the tokens of a run with this user alone."""
    alone = [one_by_one(compiled_with_verify([prompt], name)[0], prompt)[0] for prompt in PROMPTS]
    engine, _, _ = compiled_with_verify(PROMPTS, name)
    assert read_prompts(engine, PROMPTS) == [tokens[0] for tokens in alone]
    at = [0, 0]
    for index, accepted in enumerate(ACCEPTED):
        user = index % 2
        assert (
            engine.verify(draft(alone[user], at[user], accepted), user)[:accepted]
            == alone[user][at[user] + 1 :][:accepted]
        )
        engine.keep(accepted, user)
        at = [n + 1 + (accepted if i == user else 0) for i, n in enumerate(at)]
        assert engine.decode() == [tokens[n] for tokens, n in zip(alone, at, strict=True)]


@pytest.mark.parametrize("name", ["4x5", "pipeline", "latent", "latent attention in the middle"])
def test_verify_wavelets_on_links_are_the_words_of_the_fabric_model(name: str) -> None:
    _, program, machine = compiled_with_verify(PROMPTS[:1], name)
    for length in (7, 14):
        cost = Fabric(program, machine, SOFTWARE).verify_cost(length)
        run = phase_run(program, program.verify[0], [length], machine, SOFTWARE)
        np.testing.assert_array_equal(run.links, cost.links)


def test_verify_costs_less_than_a_batch_and_a_batch_less_than_single_tokens() -> None:
    """A batch costs more than a verification pass because the caches of its users are read and shifted one by one."""
    (_, one, machine), (_, several, _) = (compiled_with_verify([(3, 11)] * users, "baseline") for users in (1, TOKENS))
    fabric = Fabric(one, machine, SOFTWARE)
    plain, verify = fabric.decode_cost(14).cycles, fabric.verify_cost(14).cycles
    users = Fabric(several, machine, SOFTWARE).decode_cost(*(14,) * TOKENS).cycles
    assert plain < verify < users < TOKENS * plain


@pytest.mark.parametrize("options", [{"sampling": "host"}, {"verify_ids": "host"}], ids=["drawn", "likeliest"])
def test_verify_tokens_come_from_the_host_if_it_drafts_or_draws(options: dict[str, str]) -> None:
    """Ids, logits and words equal those of a pass whose tokens are stored on the PEs.

    The cost is higher by one round trip to the host.
    """
    engine, reference_program, machine = compiled_with_verify(PROMPTS[:1], "4x5")
    tokens, logits = one_by_one(engine, PROMPTS[0])
    engine, program, _ = compiled_with_verify(PROMPTS[:1], "4x5", **options)
    assert read_prompts(engine, PROMPTS[:1]) == tokens[:1]
    before = engine.link_words()
    assert engine.verify(draft(tokens, 0, 3))[:3] == tokens[1:4]
    fabric, reference = Fabric(program, machine, SOFTWARE), Fabric(reference_program, machine, SOFTWARE)
    cost, reference_cost = fabric.verify_cost(len(PROMPTS[0])), reference.verify_cost(len(PROMPTS[0]))
    np.testing.assert_array_equal(engine.link_words() - before, cost.links)
    host = CAUSES.index("host")
    host_cycles = (cost.by_cause.sum(axis=0) - reference_cost.by_cause.sum(axis=0))[host]
    assert host_cycles == pytest.approx(machine.host_round_trip_s * machine.clock_hz, rel=0.001)
    run = phase_run(program, program.verify[0], [len(PROMPTS[0])], machine, SOFTWARE)
    np.testing.assert_array_equal(run.links, cost.links)
    engine.keep(2, next_id=tokens[2])
    np.testing.assert_allclose(engine.verified_logits[:3], logits[1:4], rtol=0, atol=2e-5 * float(np.abs(logits).max()))
    engine.decode()
    np.testing.assert_allclose(engine.logits[0], logits[3], rtol=0, atol=2e-5 * float(np.abs(logits).max()))


def test_verify_refuses_wrong_numbers_of_tokens() -> None:
    engine, _, _ = compiled_with_verify(PROMPTS[:1], "4x5")
    read_prompts(engine, PROMPTS[:1])
    with pytest.raises(BadInput, match="4 tokens to verify: the Program has passes over 5"):
        engine.verify(range(TOKENS - 1))
    for accepted in (0, TOKENS + 1):
        engine.verify(range(TOKENS))
        with pytest.raises(BadInput, match=f"{accepted} tokens of user 0 to keep: give 1 to 5"):
            engine.keep(accepted)
        engine.keep(1)
    with pytest.raises(BadInput, match="once after each pass"):
        engine.keep(1)
    while engine.caches.length(0) + TOKENS <= CONTEXT:
        engine.decode()
    with pytest.raises(BadInput, match=f"5 tokens to verify after {CONTEXT - 4}: the cache has room for {CONTEXT}"):
        engine.verify(range(TOKENS))
