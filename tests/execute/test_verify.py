"""Passes over several new tokens of one user: ids and logits are those of tokens that are decoded one by one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from goldens import TOLERANCE, check_logits
from random_checkpoint import write_checkpoint
from session import SOFTWARE, check_traffic, session
from tiers import slow_but
from user_cases import CASES, user_engine

from wse.backends.execute.engine import Engine
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.program import Program

PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3, 11))
TOKENS = 5
KEPT = (5, 2, 1, 4, 3)
"""Tokens that are kept of each pass; a token is decoded after each."""
GENERATED = sum(KEPT) + len(KEPT)
CONTEXT = len(PROMPTS[0]) + GENERATED + TOKENS
OF_USERS = ("1x1", "two wafers", "drawn", "float16", "fp8", "int4", "mxfp4", "biased experts", "experts in int4")
REFUSED = ("linear", "linear over wafers", "qwen3_next", "qwen3_5", "qwen3_5_moe")
"""Models whose state cannot take tokens back."""
NAMES = [name for name in CASES if name not in (*OF_USERS, *REFUSED)]
FAMILIES = Path(__file__).parents[1] / "data" / "families"
QUICK = ("4x5", "square", "untied", "latent", "own experts", "traits", "latent attention in the middle")


def compiled(prompts: Sequence[Sequence[int]], name: str, **more: Any) -> tuple[Engine, Program, WaferSpec]:
    """An engine with passes over several tokens; the host draws the likeliest."""
    draws = [lambda logits: int(logits.argmax())] * len(prompts)
    return user_engine(prompts, name, draws, context=CONTEXT, verify_tokens=TOKENS, **more)


def read(engine: Engine, prompts: Sequence[Sequence[int]]) -> list[int]:
    list(engine.prefill(*prompts))
    return engine.tokens


def one_by_one(engine: Engine, prompt: Sequence[int]) -> tuple[list[int], npt.NDArray[np.float32]]:
    """The ids that follow a prompt, and the logits that gave them."""
    tokens, logits = read(engine, [prompt]), [engine.logits[0]]
    while len(tokens) < GENERATED + TOKENS:
        tokens += engine.decode()
        logits.append(engine.logits[0])
    return tokens, np.stack(logits)


def drafted(tokens: Sequence[int], first: int, kept: int) -> list[int]:
    """The tokens of a pass from one of those of a run on, of which all behind the ``kept`` are wrong."""
    right = list(tokens[first : first + TOKENS])
    return [*right[:kept], *((token + 1) % 60 for token in right[kept:])]


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_a_pass_gives_what_single_tokens_give_and_what_it_gives_up_leaves_no_trace(name: str) -> None:
    engine, _, _ = compiled(PROMPTS[:1], name)
    tokens, logits = one_by_one(engine, PROMPTS[0])
    allowed = 0.0 if name == "one row" else 2e-5 * float(np.abs(logits).max())
    engine, _, _ = compiled(PROMPTS[:1], name)
    assert read(engine, PROMPTS[:1]) == tokens[:1]
    at = 0
    for kept in KEPT:
        ids = engine.verify(drafted(tokens, at, kept))
        assert ids[:kept] == tokens[at + 1 : at + 1 + kept]
        np.testing.assert_allclose(engine.verified_logits[:kept], logits[at + 1 : at + 1 + kept], rtol=0, atol=allowed)
        engine.keep(kept)
        at += kept + 1
        assert engine.decode() == tokens[at : at + 1]
        np.testing.assert_allclose(engine.logits[0], logits[at], rtol=0, atol=allowed)


@pytest.mark.parametrize("name", ["4x5", "untied", "own experts", "attention in the middle"])
def test_words_on_links_and_bytes_that_cross_are_those_of_the_fast_model(name: str) -> None:
    engine, program, machine = compiled(PROMPTS[:1], name)
    fabric, pairs = Fabric(program, machine, SOFTWARE), engine.routing.pairs
    costs: list[PhaseCost] = [fabric.prefill_cost(index, dict(pairs)) for index in engine.prefill(*PROMPTS[:1])]
    length = len(PROMPTS[0])
    for kept in KEPT:
        engine.verify(range(TOKENS))
        costs.append(fabric.verify_cost(length, dict(pairs)))
        engine.keep(kept)
        length += kept
    check_traffic(engine, costs)


@pytest.mark.parametrize("name", ["4x5", "pipeline", "latent", "attention in the middle"])
def test_a_pass_leaves_other_users_alone(name: str) -> None:
    """Each of two users gets what they get alone, while passes are over tokens of one of them."""
    alone = [one_by_one(compiled([prompt], name)[0], prompt)[0] for prompt in PROMPTS]
    engine, _, _ = compiled(PROMPTS, name)
    assert read(engine, PROMPTS) == [tokens[0] for tokens in alone]
    at = [0, 0]
    for turn, kept in enumerate(KEPT):
        user = turn % 2
        assert engine.verify(drafted(alone[user], at[user], kept), user)[:kept] == alone[user][at[user] + 1 :][:kept]
        engine.keep(kept, user)
        at = [n + 1 + (kept if i == user else 0) for i, n in enumerate(at)]
        assert engine.decode() == [tokens[n] for tokens, n in zip(alone, at, strict=True)]


@pytest.mark.parametrize("name", ["4x5", "pipeline", "latent", "latent attention in the middle"])
def test_wavelets_of_a_pass_are_those_words(name: str) -> None:
    _, program, machine = compiled(PROMPTS[:1], name)
    for length in (7, 14):
        cost = Fabric(program, machine, SOFTWARE).verify_cost(length)
        run = phase_run(program, program.verify[0], [length], machine, SOFTWARE)
        np.testing.assert_array_equal(run.links, cost.links)


def test_a_pass_costs_less_than_as_many_users_who_cost_less_than_tokens_one_by_one() -> None:
    """Users have caches of their own, which are read and shifted one after another."""
    (_, one, machine), (_, several, _) = (compiled([(3, 11)] * users, "baseline") for users in (1, TOKENS))
    fabric = Fabric(one, machine, SOFTWARE)
    plain, verify = fabric.decode_cost(14).cycles, fabric.verify_cost(14).cycles
    users = Fabric(several, machine, SOFTWARE).decode_cost(*(14,) * TOKENS).cycles
    assert plain < verify < users < TOKENS * plain


@pytest.mark.parametrize("wanted", [{"sampling": "host"}, {"verify_ids": "host"}], ids=["drawn", "likeliest"])
def test_tokens_of_a_pass_come_from_the_host_where_it_drafts_or_draws(wanted: dict[str, str]) -> None:
    """Ids, logits and words are those of a pass whose tokens stand on the PEs; a round trip to the host comes first."""
    engine, own_program, machine = compiled(PROMPTS[:1], "4x5")
    tokens, logits = one_by_one(engine, PROMPTS[0])
    engine, program, _ = compiled(PROMPTS[:1], "4x5", **wanted)
    assert read(engine, PROMPTS[:1]) == tokens[:1]
    before = engine.link_words()
    assert engine.verify(drafted(tokens, 0, 3))[:3] == tokens[1:4]
    fabric, own = Fabric(program, machine, SOFTWARE), Fabric(own_program, machine, SOFTWARE)
    cost, own_cost = fabric.verify_cost(len(PROMPTS[0])), own.verify_cost(len(PROMPTS[0]))
    np.testing.assert_array_equal(engine.link_words() - before, cost.links)
    host = CAUSES.index("host")
    more = (cost.by_cause.sum(axis=0) - own_cost.by_cause.sum(axis=0))[host]
    assert more == pytest.approx(machine.host_round_trip_s * machine.clock_hz, rel=0.001)
    run = phase_run(program, program.verify[0], [len(PROMPTS[0])], machine, SOFTWARE)
    np.testing.assert_array_equal(run.links, cost.links)
    engine.keep(2, next_id=tokens[2])
    np.testing.assert_allclose(engine.verified_logits[:3], logits[1:4], rtol=0, atol=2e-5 * float(np.abs(logits).max()))
    engine.decode()
    np.testing.assert_allclose(engine.logits[0], logits[3], rtol=0, atol=2e-5 * float(np.abs(logits).max()))


def test_what_a_pass_cannot_be_over_is_refused() -> None:
    engine, _, _ = compiled(PROMPTS[:1], "4x5")
    read(engine, PROMPTS[:1])
    with pytest.raises(BadInput, match="4 tokens to verify: the Program has passes over 5"):
        engine.verify(range(TOKENS - 1))
    for kept in (0, TOKENS + 1):
        engine.verify(range(TOKENS))
        with pytest.raises(BadInput, match=f"{kept} tokens of user 0 to keep: give 1 to 5"):
            engine.keep(kept)
        engine.keep(1)
    with pytest.raises(BadInput, match="once after each pass"):
        engine.keep(1)
    while engine.caches.length(0) + TOKENS <= CONTEXT:
        engine.decode()
    with pytest.raises(BadInput, match=f"5 tokens to verify after {CONTEXT - 4}: the cache has room for {CONTEXT}"):
        engine.verify(range(TOKENS))


@pytest.mark.parametrize("name", slow_but(["gpt_oss", "gemma2", "deepseek_v3", "llama4"], "gpt_oss", "gemma2"))
def test_a_pass_over_all_that_follows_has_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    """On two wafers or on one, with both schedules."""
    made = json.loads((FAMILIES / f"{name}.json").read_text(encoding="utf-8"))
    case, index = made["cases"][0], len(name)
    ids = case["ids"]
    run = session(
        write_checkpoint(tmp_path, made),
        ((5, 4), (4, 7))[index % 2],
        prompt=case["prompt_ids"],
        new_tokens=len(ids),
        wafers=1 + index % 2,
        sram_bytes=1 << 20,
        schedule=(OPTIMIZED, BASELINE)[index % 3 == 0],
        logits=True,
        verify_tokens=len(ids) - 1,
    )
    assert run.read() == ids[0]
    assert run.engine.verify(ids[:-1]) == ids[1:]
    check_logits(case, np.concatenate([run.engine.logits, run.engine.verified_logits]), TOLERANCE)
