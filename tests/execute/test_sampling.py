"""Tests of sampling: probabilities equal those of transformers, draws are equal on all meshes, overflow is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled import compile_model
from session import SOFTWARE, region_options, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.sampling import Sampler, Sampling, adjusted_scores
from wse.errors import BadModel
from wse.program.program import Program
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.execute import execute
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import RunRequest

DATA = Path(__file__).parents[1] / "data" / "text" / "sampling.json"
GOLDENS: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))


def draw_probabilities(
    logits: list[float], seen: list[int], sampling: Sampling
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the probabilities of all token ids, `[vocabulary]`: the softmax of the adjusted scores."""
    scores = adjusted_scores(np.array(logits, np.float32), list(dict.fromkeys(seen)), sampling)
    weights = np.exp(scores)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("case", GOLDENS, ids=lambda case: str(case["options"]))
def test_probabilities_equal_those_of_transformers(case: dict[str, Any]) -> None:
    found = draw_probabilities(case["logits"], case["seen"], Sampling(**case["options"]))
    assert np.flatnonzero(found).tolist() == case["kept"]
    np.testing.assert_allclose(found[case["kept"]], case["probabilities"], rtol=1e-5)


def test_draws_follow_the_probabilities() -> None:
    """Apply a chi-squared test to 20,000 draws of nine ids from one seed.

    With 8 degrees of freedom the statistic is below 26.1 with a probability of 99.9 %.
    """
    logits = np.linspace(-2, 2, 9).astype(np.float32)
    sampler = Sampler(Sampling(temperature=1.3, seed=11))
    counts = np.bincount([sampler.draw(logits) for _ in range(20_000)], minlength=9)
    expected = draw_probabilities(logits.tolist(), [], Sampling(temperature=1.3)) * 20_000
    assert ((counts - expected) ** 2 / expected).sum() < 26.1


def test_penalty_applies_to_greedy_draws_of_prompt_and_drawn_ids() -> None:
    """Id 1 of the prompt is penalised, so id 0 is drawn first. Then id 0 is penalised, so id 2 is drawn."""
    logits = np.array([1.0, 0.95, 0.9, -1.0], np.float32)
    sampler = Sampler(Sampling(repetition_penalty=2.0), prompt=[1, 1])
    assert [sampler.draw(logits) for _ in range(4)] == [0, 2, 0, 0]
    assert Sampler(Sampling()).draw(logits) == 0
    assert not Sampling(seed=5).on_host
    assert Sampling(repetition_penalty=1.1).on_host


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1e-320),
        Sampling(temperature=1e5, top_p=1e-300),
        Sampling(temperature=1.0, min_p=1.0, top_k=3),
        Sampling(temperature=1e-3, repetition_penalty=1e6),
    ],
)
def test_extreme_options_draw_a_valid_id(sampling: Sampling) -> None:
    logits = np.array([3e38, -3e38, 1.0, 2.0], np.float32)
    assert Sampler(sampling, [0]).draw(logits) in range(4)


def test_nonfinite_logits_draw_minus_1() -> None:
    assert Sampler(Sampling(temperature=1.0)).draw(np.array([1.0, np.nan], np.float32)) == -1
    assert Sampler(Sampling(temperature=1.0)).draw(np.array([1.0, np.inf], np.float32)) == -1


OPTIONS: list[dict[str, Any]] = [
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2},
    {"temperature": 0.0, "repetition_penalty": 1.3},
]


@pytest.fixture(scope="module")
def runs_on_two_meshes(test_data: Path) -> list[tuple[PreparedRun, Program]]:
    """Return prepared runs and Programs of one request on a 16x12 mesh and on two wafers of 8x8 PEs.

    The host draws tokens because the temperature is not 0.
    """
    folder = str(test_data / "models" / "stories260k")
    prompt = "One day, a small dog and a big cat went to the park"
    request_fields = {"new_tokens": 16, "dtype": "float32", "temperature": 1.0, "schedule": "baseline"}
    request = make_request(RunRequest, model=folder, prompt=prompt, **request_fields)
    runs = []
    for mesh, wafers in (("9x8", 1), ("6x6", 2)):
        prepared = prepare(replace_options(request, mesh=mesh, wafers=wafers))
        runs.append((prepared, compile_program(prepared)))

    return runs


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_of_a_seed_are_equal_on_both_meshes(
    runs_on_two_meshes: list[tuple[PreparedRun, Program]], options: dict[str, Any]
) -> None:
    by_seed = []
    for seed in (0, 1) if options["temperature"] else (0,):
        texts = []
        for prepared, program in runs_on_two_meshes:
            request = replace_options(prepared.request, seed=seed, **options)
            texts.append(execute(replace(prepared, request=request), program).tokens)
        assert len(texts[0]) > 8
        assert texts[1:] == texts[:-1], (seed, texts)
        by_seed.append(tuple(texts[0]))
    assert len(set(by_seed)) == len(by_seed)


SPEC = tiny_spec()


def engine(scale: float, dtype: str = "float16", sampling: str = "wafer") -> Engine:
    """Return an engine of the tiny model whose gains of the final norm are multiplied by ``scale``."""
    options = region_options(dtype=dtype, context=12, prompt_tokens=(2,), sampling=sampling)
    weights_by_name = tensors(SPEC)
    weights_by_name["final_norm"] = (weights_by_name["final_norm"] * scale).astype(np.float32)
    program = compile_model(SPEC, wafer(3, 3, 1 << 20), SOFTWARE, options)
    return Engine(program, SPEC, weights_by_name.__getitem__, [Sampler(Sampling(temperature=1.0)).draw])


def test_weight_beyond_float16_is_reported_with_a_remedy() -> None:
    with pytest.raises(
        BadModel, match=r"^final_norm: contains .*e\+06, more than float16's 65,504; use --dtype bfloat16"
    ):
        engine(1e6)


@pytest.mark.parametrize("sampling", ["wafer", "host"])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_overflow_of_logits_raises_bad_model(sampling: str) -> None:
    run = engine(4e4, sampling=sampling)
    for arena in run.arenas.values():
        arena.view("float16")[...] = np.float16(np.inf).view(np.uint16)
    list(run.prefill([3, 4]))
    with pytest.raises(
        BadModel,
        match=r"^tiny: the logits are not numbers: .* overflowed float16; check the weights, or use --dtype bfloat16",
    ):
        _ = run.tokens
