"""Runs with drafts: for any drafts the tokens of plain runs, the distribution of plain draws, and all times."""

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
    """A tiny model of 16 ids, and another one that is near enough to be its draft; neither ends a text."""
    folder, random = tmp_path_factory.mktemp("models"), np.random.default_rng(3)
    near = {
        name: (values + 0.2 * values.std() * random.standard_normal(values.shape)).astype(np.float32)
        for name, values in tiny_tensors().items()
    }
    found = {}
    for name, tensors in (("target", tiny_tensors()), ("near", near)):
        (folder / name).mkdir()
        found[name] = write_model(folder / name, tensors, eos_token_id=None)
    return found


def request(models: dict[str, Path], **wanted: Any) -> RunRequest:
    base = {"model": models["target"], "trace": None, "prompt_ids": PROMPT, "new_tokens": NEW, "mesh": "3x4"}
    return make_request(RunRequest, **(base | {"schedule": "baseline"} | wanted))


def ran(models: dict[str, Path], **wanted: Any) -> RunResult:
    return run(request(models, **wanted))


@pytest.mark.parametrize(
    ("mesh", "draft", "tokens", "wanted"),
    [
        ("3x4", "near", 3, {}),
        ("5x3", "near", 1, {"draft_place": "wafer", "draft_mesh": "2x3"}),
        ("1x4", "near", 5, {"draft_place": "host"}),
        pytest.param("4x4", "target", 4, {"wafers": 2}, marks=pytest.mark.slow),
        ("4x3", "ngram", 3, {"draft_place": "host"}),
        ("3x4", "near", 2, {"repetition_penalty": 1.3}),
    ],
)
def test_greedy_tokens_are_kept(
    models: dict[str, Path], mesh: str, draft: str, tokens: int, wanted: dict[str, Any]
) -> None:
    plain = ran(models, mesh=mesh, **{key: value for key, value in wanted.items() if "draft" not in key})
    result = ran(models, mesh=mesh, draft=models.get(draft, draft), draft_tokens=tokens, **wanted)
    assert result.tokens == plain.tokens
    found = result.verify.draft
    assert result.verify.passes > 0
    assert found.verified[0] == result.verify.passes
    assert found.verified[1:] == found.accepted[:-1], "a token is decided on where the one before was accepted"
    if draft == "target":
        assert found.accepted == found.verified, "a model accepts all that it says itself"
    if draft == "near" and tokens > 1:
        assert 0 < sum(found.accepted) < sum(found.verified), "the draft is as good as the model, or good for nothing"


@pytest.mark.slow
def test_the_bundled_draft_gives_the_golden_tokens_and_is_a_draft() -> None:
    """The tokens that the training script saw, in float32; most first tokens of drafts are right."""
    data = Path(__file__).parents[2] / "data" / "story_golden.json"
    case = json.loads(data.read_text(encoding="utf-8"))[0]
    result = run(
        make_request(
            RunRequest,
            prompt_ids=case["prompt_ids"],
            new_tokens=48,
            dtype="float32",
            mesh="14x14",
            draft="story-draft",
            draft_mesh="6x6",
            trace=None,
        )
    )
    assert list(result.tokens or ()) == case["ids"][:48]
    assert (result.verify.draft.acceptance[0] or 0) > 0.5


def test_what_a_run_took_is_the_sum_of_its_parts(models: dict[str, Path], tmp_path: Path) -> None:
    """Passes, plain tokens and drafts make the rate; tokens of the trace are at the times that these leave."""
    path = tmp_path / "run.h5"
    result = ran(models, draft=models["near"], draft_tokens=3, trace=path)
    verified, decode = result.verify, result.decode
    plain = NEW - 1 - sum(verified.draft.accepted) - verified.passes
    assert verified.draft.tokens_per_pass == 1 + sum(verified.draft.accepted) / verified.passes
    cycles = verified.passes * (verified.cycles_per_pass or 0) + verified.draft.cycles
    cycles += plain * decode.cycles_per_token if decode else 0.0
    assert verified.tokens_per_s == pytest.approx((NEW - 1) * result.wafer.clock_hz / cycles)
    prepared = prepare(request(models, draft=models["near"], draft_tokens=3))
    fabric = Fabric(compile_program(prepared), prepared.wafer, prepared.software)
    single = sum(fabric.decode_cost(len(PROMPT) + n).cycles for n in range(NEW - 1))
    assert verified.plain_tokens_per_s == pytest.approx((NEW - 1) * result.wafer.clock_hz / single)
    assert verified.speed_up == pytest.approx(single / cycles)
    assert problems(path) == []
    with open_trace(path) as trace:
        generated = trace.column("tokens/cycles")[~trace.column("tokens/is_prompt").astype(bool)]
        assert generated[1:].sum() == pytest.approx(cycles)


def test_a_draft_model_is_timed_as_it_runs(models: dict[str, Path]) -> None:
    """Each pass is one of its own Program, after as many tokens as its cache has; ids go to and fro."""
    target = prepare(request(models, draft=models["near"], draft_tokens=3))
    program = compile_program(target)
    prepared = prepare_draft(target)
    own = compile_program(prepared.run)
    drafter = make_drafter(target, program, (prepared, own))
    assert isinstance(drafter, DraftModel)
    drafter.read(PROMPT)
    fabric = Fabric(own, prepared.run.wafer, prepared.run.software)
    target_region, draft_region = (
        Region(rows=compiled.stages[0].rect.rows, cols=compiled.stages[0].rect.cols) for compiled in (program, own)
    )
    times = DraftTimes(
        wafer=target.wafer, software=target.software, region=draft_region, place="same", host_draws=False
    )
    ways = times.exchange_cycles(2, target_region, draft_region) + times.exchange_cycles(3, draft_region, target_region)

    def passes(*lengths: int) -> float:
        return sum(fabric.verify_cost(length).cycles for length in lengths)

    text = (*PROMPT, 3)
    first = drafter.propose(text, 3)
    assert first.cycles == pytest.approx(passes(7, 8, 9) + ways)
    rejected = next(token for token in range(16) if token != first.tokens[1])
    text += (first.tokens[0], rejected)
    second = drafter.propose(text, 3)
    assert second.cycles == pytest.approx(passes(9, 10, 11) + ways), "the first was accepted, and is in the cache"
    text += (*second.tokens, 6)
    third = drafter.propose(text, 3)
    assert third.cycles == pytest.approx(passes(13, 14, 15) + ways), "the last of a draft ran while it was verified"
    assert [one.overlapped_cycles for one in (first, second, third)] == [passes(10), passes(12), passes(16)]
    assert drafter.passes == 12
    fresh = make_drafter(target, program, (prepared, own))
    fresh.read(PROMPT)
    assert fresh.propose(text, 3).tokens == third.tokens, "what was taken back has left no trace"


def test_ids_take_the_way_between_two_regions() -> None:
    """The closed form of one way: two ramps, the hops, the words, then a row and a column."""
    wafer, software = load_wafer("wse2"), load_software("tuned", "wse2")
    times = DraftTimes(wafer=wafer, software=software, region=Region(rows=1, cols=1), place="same", host_draws=False)
    launch, line = software.task_dispatch_cycles + software.vector_issue_cycles, LineCosts.for_software(wafer, software)
    one = times.exchange_cycles(1, Region(rows=1, cols=1), Region(rows=1, cols=1))
    way = 2 * line.ramp + 1 + 3 * line.hop + math.ceil(1 / line.words_per_cycle)
    assert one == pytest.approx(3 * launch + way, abs=2), "each PE is a row and a column of its own"
    wide, tall = (times.exchange_cycles(4, Region(rows=r, cols=c), times.region) for r, c in ((1, 40), (40, 1)))
    assert min(wide, tall) > one
    link = replace(times, place="wafer").exchange_cycles(4, times.region, times.region)
    beside = times.exchange_cycles(4, times.region, times.region)
    way_s = wafer.wafer_link_latency_s + 16 / wafer.wafer_link_bytes_per_s
    assert link - beside == pytest.approx(way_s * wafer.clock_hz, abs=1)
    for silent in (replace(times, place="host"), replace(times, host_draws=True)):
        assert silent.exchange_cycles(4, times.region, times.region) == 0.0


def distance(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Standard deviations of chi-square above its mean, of counts in cells of 5 expected ones, and of the others."""
    total = sum(counts.values())
    cells = [(counts[key], total * share) for key, share in expected.items() if total * share >= 5]
    others = total - sum(count for count, _ in cells), total - sum(mean for _, mean in cells)
    cells += [others] if others[1] >= 5 else []
    freedom = len(cells) - 1
    return (sum((count - mean) ** 2 / mean for count, mean in cells) - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("certain", [False, True], ids=["drawn", "certain"])
def test_accepted_and_drawn_tokens_have_the_distribution_of_the_model(certain: bool) -> None:  # noqa: FBT001
    """Of a chain over 4 ids and a draft that is another: 6,000 texts of 3 ids against the exact shares of all 64."""
    random, sampling = np.random.default_rng(11), Sampling(temperature=0.7, top_p=0.97, seed=5)
    model, drafts = (random.normal(scale=1.2, size=(4, 4)).astype(np.float32) for _ in range(2))
    p, q = (np.stack([probabilities(row, [], sampling) for row in table]) for table in (model, drafts))
    sampler, counts = Sampler(sampling), Counter[tuple[int, ...]]()
    for _ in range(6_000):
        at, drafted, drawn = 0, list[int](), []
        for _ in range(2):
            drawn.append(q[at])
            at = int(q[at].argmax()) if certain else draw(q[at], random)
            drafted.append(at)
        text = sampler.accept(model[[0, *drafted]], drafted, None if certain else drawn)
        while len(text) < 3:
            text += sampler.accept(model[[text[-1]]], [])
        counts[tuple(text[:3])] += 1
    expected = {(a, b, c): p[0, a] * p[a, b] * p[b, c] for a, b, c in product(range(4), repeat=3)}
    assert abs(distance(counts, expected)) < 4
    of_draft = {(a, b, c): q[0, a] * q[a, b] * q[b, c] for a, b, c in product(range(4), repeat=3)}
    assert distance(counts, of_draft) > 20, "or it tells nothing"


def test_no_draw_accepts_what_the_model_cannot_say_and_none_rejects_what_both_say_alike() -> None:
    sampler, sure = Sampler(Sampling(temperature=1.0, seed=2)), np.full((2, 3), -40.0, np.float32)
    sure[:, 1] = 0.0
    assert sampler.accept(sure, [1]) == [1, 1]
    assert sampler.accept(sure, [2]) == [1], "the id in its place, and nothing behind it"
    even = np.zeros((4, 3), np.float32)
    shares = [np.full(3, 1 / 3)] * 3
    for _ in range(50):
        assert sampler.accept(even, [0, 1, 2], shares)[:3] == [0, 1, 2]


def test_a_draft_of_another_vocabulary_context_or_size_is_one_line(models: dict[str, Path], tmp_path: Path) -> None:
    """Of as many ids with other texts too."""

    def of(**wanted: Any) -> str:
        return refusal(BadInput, prepare_draft, prepare(request(models, **wanted)))

    other = tmp_path / "other"
    shutil.copytree(BUNDLED["story-draft"], other)
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    first, second = sorted((ids["a"], ids["b"]))
    assert f"has another vocabulary: its id {first} is 'b', story's 'a'; " in of(model="story", mesh=None, draft=other)
    assert second == first + 1
    (tmp_path / "short").mkdir()
    short = write_model(tmp_path / "short", max_position_embeddings=16)
    assert "was made for 16 tokens of context, the run has 27" in of(draft=short)
