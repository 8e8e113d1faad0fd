"""Tests of runs with drafts: tokens and sampling distribution of runs without drafts, and the times of drafts."""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import tiny_tensors, write_model
from wse.backends.execute.host_tokens.sampling import Sampler, Sampling, draw, probabilities
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.model import Fabric
from wse.errors import BadInput
from wse.hardware.load import load_software, load_wafer
from wse.models.catalogue import BUNDLED
from wse.studies.compile.choose import compile_program
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.options.option import make_request
from wse.studies.run.drafts import DraftModel, make_drafter
from wse.studies.run.prepare import prepare
from wse.studies.run.prepare_draft import prepare_draft
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run
from wse_traces import open_trace, problems

PROMPT = (5, 9, 1, 7, 12, 4, 2)
NEW = 20


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a tiny model of 16 ids, and a copy with noise as its draft model. Neither has an end token."""
    folder, random = tmp_path_factory.mktemp("models"), np.random.default_rng(3)
    near = {
        name: (values + 0.2 * values.std() * random.standard_normal(values.shape)).astype(np.float32)
        for name, values in tiny_tensors().items()
    }
    folders = {}
    for name, tensors in (("target", tiny_tensors()), ("near", near)):
        (folder / name).mkdir()
        folders[name] = write_model(folder / name, tensors, eos_token_id=None)
    return folders


def draft_request(models: dict[str, Path], **options: Any) -> RunRequest:
    """Return a request of the target model with these options, which may name a draft."""
    base = {"model": models["target"], "trace": None, "prompt_ids": PROMPT, "new_tokens": NEW, "mesh": "3x4"}
    return make_request(RunRequest, **(base | {"schedule": "baseline"} | options))


def result_of(models: dict[str, Path], **options: Any) -> RunResult:
    """Run the target model with these options."""
    return run(draft_request(models, **options))


@pytest.fixture(scope="module")
def plain(models: dict[str, Path]) -> RunResult:
    """Run the target model without drafts."""
    return result_of(models)


@pytest.mark.parametrize(
    ("draft", "tokens", "options"),
    [
        ("near", 1, {"draft_place": "wafer", "draft_mesh": "2x3"}),
        pytest.param("target", 4, {"wafers": 2}, marks=pytest.mark.slow),
        ("ngram", 3, {"draft_place": "host"}),
        pytest.param("near", 2, {"repetition_penalty": 1.3}, marks=pytest.mark.slow),
    ],
)
def test_greedy_tokens_equal_those_without_drafts(
    models: dict[str, Path], plain: RunResult, draft: str, tokens: int, options: dict[str, Any]
) -> None:
    without = {key: value for key, value in options.items() if "draft" not in key}
    expected = result_of(models, **without) if without else plain
    result = result_of(models, draft=models.get(draft, draft), draft_tokens=tokens, **options)
    assert result.tokens == expected.tokens
    found = result.verify.draft
    assert result.verify.passes > 0
    assert found.verified[0] == result.verify.passes
    assert found.verified[1:] == found.accepted[:-1], "a draft token is verified only if the one before was accepted"
    if draft == "target":
        assert found.accepted == found.verified, "a model accepts all of its own greedy tokens"
    if draft == "near" and tokens > 1:
        assert 0 < sum(found.accepted) < sum(found.verified), (
            "the test needs a draft model that is right sometimes, but not always"
        )


def test_cycles_of_a_run_are_the_sum_of_its_parts(models: dict[str, Path], tmp_path: Path) -> None:
    """Verification passes, plain decode passes and drafts add up to the total cycles, which the trace has, too."""
    path = tmp_path / "run.h5"
    result = result_of(models, draft=models["near"], draft_tokens=3, trace=path)
    verified, decode = result.verify, result.decode
    plain_passes = NEW - 1 - sum(verified.draft.accepted) - verified.passes
    assert verified.draft.tokens_per_pass == 1 + sum(verified.draft.accepted) / verified.passes
    cycles = verified.passes * (verified.cycles_per_pass or 0) + verified.draft.cycles
    cycles += plain_passes * decode.cycles_per_token if decode else 0.0
    assert verified.tokens_per_s == pytest.approx((NEW - 1) * result.wafer.clock_hz / cycles)
    prepared = prepare(draft_request(models, draft=models["near"], draft_tokens=3))
    fabric = Fabric(compile_program(prepared), prepared.wafer, prepared.software)
    plain_cycles = sum(fabric.decode_cost(len(PROMPT) + n).cycles for n in range(NEW - 1))
    assert verified.plain_tokens_per_s == pytest.approx((NEW - 1) * result.wafer.clock_hz / plain_cycles)
    assert verified.speed_up == pytest.approx(plain_cycles / cycles)
    assert problems(path) == []
    with open_trace(path) as trace:
        generated = trace.column("tokens/cycles")[~trace.column("tokens/is_prompt").astype(bool)]
        assert generated[1:].sum() == pytest.approx(cycles)


def test_draft_model_costs_its_passes_and_exchanges(models: dict[str, Path]) -> None:
    """A draft costs one pass of the draft model per token, after the tokens in its cache, and two exchanges of ids."""
    target = prepare(draft_request(models, draft=models["near"], draft_tokens=3))
    program = compile_program(target)
    prepared = prepare_draft(target)
    draft_program = compile_program(prepared)
    drafter = make_drafter(target, program, (prepared, draft_program))
    assert isinstance(drafter, DraftModel)
    drafter.read(PROMPT)
    fabric = Fabric(draft_program, prepared.wafer, prepared.software)
    target_region, draft_region = (
        Region(rows=compiled.stages[0].rect.rows, cols=compiled.stages[0].rect.cols)
        for compiled in (program, draft_program)
    )
    times = DraftTimes(
        wafer=target.wafer, software=target.software, region=draft_region, place="same", host_draws=False
    )
    exchanges = times.exchange_cycles(2, target_region, draft_region) + times.exchange_cycles(
        3, draft_region, target_region
    )

    def passes(*lengths: int) -> float:
        return sum(fabric.verify_cost(length).cycles for length in lengths)

    text = (*PROMPT, 3)
    first = drafter.propose(text, 3)
    assert first.cycles == pytest.approx(passes(7, 8, 9) + exchanges)
    rejected = next(token for token in range(16) if token != first.tokens[1])
    text += (first.tokens[0], rejected)
    second = drafter.propose(text, 3)
    assert second.cycles == pytest.approx(passes(9, 10, 11) + exchanges), (
        "the first token was accepted and is in the cache"
    )
    text += (*second.tokens, 6)
    third = drafter.propose(text, 3)
    assert third.cycles == pytest.approx(passes(13, 14, 15) + exchanges), (
        "the last draft token was processed during verification"
    )
    assert [one.overlapped_cycles for one in (first, second, third)] == [passes(10), passes(12), passes(16)]
    assert drafter.passes == 12
    fresh = make_drafter(target, program, (prepared, draft_program))
    fresh.read(PROMPT)
    assert fresh.propose(text, 3).tokens == third.tokens, "rejected tokens do not change later drafts"


def test_exchange_of_ids_agrees_with_the_closed_form() -> None:
    """Compare with the closed form of an exchange: two ramps, three hops and the words, and three launches."""
    wafer, software = load_wafer("wse2"), load_software("tuned", "wse2")
    times = DraftTimes(wafer=wafer, software=software, region=Region(rows=1, cols=1), place="same", host_draws=False)
    launch, line = software.task_dispatch_cycles + software.vector_issue_cycles, LineCosts.for_software(wafer, software)
    one = times.exchange_cycles(1, Region(rows=1, cols=1), Region(rows=1, cols=1))
    path_cycles = 2 * line.ramp + 1 + 3 * line.hop + math.ceil(1 / line.words_per_cycle)
    assert one == pytest.approx(3 * launch + path_cycles, abs=2), "distribution within regions of one PE needs no hops"
    wide, tall = (times.exchange_cycles(4, Region(rows=r, cols=c), times.region) for r, c in ((1, 40), (40, 1)))
    assert min(wide, tall) > one
    link = replace(times, place="wafer").exchange_cycles(4, times.region, times.region)
    same_wafer = times.exchange_cycles(4, times.region, times.region)
    link_s = wafer.wafer_link_latency_s + 16 / wafer.wafer_link_bytes_per_s
    assert link - same_wafer == pytest.approx(link_s * wafer.clock_hz, abs=1)
    for without_exchange in (replace(times, place="host"), replace(times, host_draws=True)):
        assert without_exchange.exchange_cycles(4, times.region, times.region) == 0.0


def distance(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Return how many standard deviations chi-square is above its mean.

    Each outcome with at least 5 expected counts is a cell. The others form one more cell if they have 5 together.

    Args:
        counts: Observed counts.
        expected: Expected probability of each outcome.
    """
    total = sum(counts.values())
    cells = [(counts[key], total * share) for key, share in expected.items() if total * share >= 5]
    rare = total - sum(count for count, _ in cells), total - sum(mean for _, mean in cells)
    cells += [rare] if rare[1] >= 5 else []
    degrees = len(cells) - 1
    return (sum((count - mean) ** 2 / mean for count, mean in cells) - degrees) / math.sqrt(2 * degrees)


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_accepted_and_sampled_tokens_have_the_distribution_of_the_model(greedy: bool) -> None:  # noqa: FBT001
    """Compare the counts of 6,000 texts of 3 ids with the exact probabilities of all 64 texts.

    The model and the draft are different Markov chains over 4 ids. A draft is sampled, or takes the most probable ids.
    """
    random, sampling = np.random.default_rng(11), Sampling(temperature=0.7, top_p=0.97, seed=5)
    model, drafts = (random.normal(scale=1.2, size=(4, 4)).astype(np.float32) for _ in range(2))
    p, q = (np.stack([probabilities(row, [], sampling) for row in table]) for table in (model, drafts))
    sampler, counts = Sampler(sampling), Counter[tuple[int, ...]]()
    for _ in range(6_000):
        at, drafted, drawn = 0, list[int](), []
        for _ in range(2):
            drawn.append(q[at])
            at = int(q[at].argmax()) if greedy else draw(q[at], random)
            drafted.append(at)
        text = sampler.accept(model[[0, *drafted]], drafted, None if greedy else drawn)
        while len(text) < 3:
            text += sampler.accept(model[[text[-1]]], [])
        counts[tuple(text[:3])] += 1
    expected = {(a, b, c): p[0, a] * p[a, b] * p[b, c] for a, b, c in product(range(4), repeat=3)}
    assert abs(distance(counts, expected)) < 4
    draft_distribution = {(a, b, c): q[0, a] * q[a, b] * q[b, c] for a, b, c in product(range(4), repeat=3)}
    assert distance(counts, draft_distribution) > 20, "the test must distinguish the model from the draft"


def test_impossible_ids_are_rejected_and_equally_probable_ones_accepted() -> None:
    sampler, certain_logits = Sampler(Sampling(temperature=1.0, seed=2)), np.full((2, 3), -40.0, np.float32)
    certain_logits[:, 1] = 0.0
    assert sampler.accept(certain_logits, [1]) == [1, 1]
    assert sampler.accept(certain_logits, [2]) == [1], "the sampled id replaces the rejected one and ends the text"
    uniform_logits = np.zeros((4, 3), np.float32)
    probabilities_of_draft = [np.full(3, 1 / 3)] * 3
    for _ in range(50):
        assert sampler.accept(uniform_logits, [0, 1, 2], probabilities_of_draft)[:3] == [0, 1, 2]


def test_draft_with_another_vocabulary_or_a_shorter_context_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    """A vocabulary of the same size with other texts is refused, too."""

    def refused(**options: Any) -> str:
        return refusal(BadInput, prepare_draft, prepare(draft_request(models, **options)))

    other = tmp_path / "other"
    shutil.copytree(BUNDLED["story-draft"], other)
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    first, second = sorted((ids["a"], ids["b"]))
    assert f"has another vocabulary: its id {first} is 'b', story's 'a'; " in refused(
        model="story", mesh=None, draft=other
    )
    assert second == first + 1
    (tmp_path / "short").mkdir()
    short = write_model(tmp_path / "short", max_position_embeddings=16)
    assert "supports a context of at most 16 tokens, but the run has 27" in refused(draft=short)
