"""Random weights: the same values on every mesh, of the deviations that keep a deep model's activations finite."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pytest
from plain_decoder import plain_logits
from session import SOFTWARE, wafer
from tiny_model import latent_spec, tiny_spec
from trait_specs import POSITIONS, TRAITS

from wse.backends.execute.engine import Engine
from wse.backends.execute.random_weights import RandomWeights
from wse.compiler.options import Options
from wse.compiler.search.search import compile_model
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes
from wse_mappings.cuts.expert_groups import DISTRIBUTED

SPEC = tiny_spec(tied=False)
PROMPT = (3, 1, 4, 1, 5)
STEPS = 3


def made(spec: ModelSpec, seed: int = 7) -> dict[str, npt.NDArray[np.float32]]:
    weights = RandomWeights(spec, seed)
    return {name: weights.rows(name)[:] for name in tensor_shapes(spec)}


def engine(
    spec: ModelSpec,
    mesh: tuple[int, int],
    *,
    dtype: str = "float32",
    wafers: int = 1,
    mapping: str = "region",
    whole: bool = False,
) -> Engine:
    """An engine that makes weights as it reads them, or has them as a ``whole``."""
    options = Options(
        mapping=mapping,
        wafers=wafers,
        dtype=dtype,
        accumulate="float32",
        context=len(PROMPT) + STEPS,
        prompt_tokens=(len(PROMPT),),
        experts=DISTRIBUTED,
        logits_out="all",
    )
    program = compile_model(spec, wafer(*mesh, 1 << 20), SOFTWARE, options)
    return Engine(program, spec, made(spec).__getitem__ if whole else RandomWeights(spec, 7).rows)


def logits(run: Engine) -> npt.NDArray[np.float32]:
    """The logits of the prompt's last token and of those that follow it, each the likeliest."""
    for _ in run.prefill(PROMPT):
        pass
    found = [run.logits[0]]
    for _ in range(STEPS - 1):
        run.decode()
        found.append(run.logits[0])
    return np.stack(found)


def test_values_are_those_of_earlier_versions() -> None:
    """A result that names its seed can be had again."""
    bits = sha256(b"".join(values.tobytes() for values in made(SPEC).values()))
    assert bits.hexdigest() == "ea62de76201618738793f64c30993cac68976dee05fc2e5eef91159d6ce15b0a"


def test_any_stretch_of_rows_has_the_values_of_the_whole() -> None:
    rows = RandomWeights(SPEC, 7).rows("layers.1.down")
    assert rows.shape == (40, 52)
    for first, last in ((0, 40), (3, 4), (39, 40), (11, 29), (5, 5)):
        np.testing.assert_array_equal(rows[first:last], rows[:][first:last])
    vector = RandomWeights(SPEC, 7).rows("final_norm")
    np.testing.assert_array_equal(vector[7:9], vector[:][7:9])


def test_seeds_and_tensors_have_streams_of_their_own() -> None:
    first, second = made(SPEC, 7), made(SPEC, 8)
    assert len({values.tobytes() for values in (*first.values(), *second.values())}) == len(first) + len(second)


@pytest.mark.parametrize(
    ("tensor", "mean", "deviation"),
    [
        ("embedding", 0, 576**-0.5),
        ("layers.0.q", 0, 576**-0.5),
        ("layers.3.gate", 0, 576**-0.5),
        ("layers.9.o", 0, (576 * 60) ** -0.5),
        ("layers.9.down", 0, (1536 * 60) ** -0.5),
        ("layers.9.attention_norm", 1, 0.1),
    ],
)
def test_values_have_the_deviation_of_their_kind(tensor: str, mean: float, deviation: float) -> None:
    values = RandomWeights(load_model("smollm2-135m").spec, 0).rows(tensor)[:].astype(np.float64)
    noise = 5 / math.sqrt(values.size)
    assert abs(values.mean() - mean) < noise * deviation
    assert abs(values.std() / deviation - 1) < noise


def test_a_gain_that_is_stored_less_one_is_about_zero() -> None:
    values = RandomWeights(replace(SPEC, norm_unit_offset=True), 0).rows("final_norm")[:]
    assert np.abs(values).max() < 0.5


@pytest.mark.parametrize(
    ("mesh", "wafers", "mapping"),
    [
        ((1, 1), 1, "region"),
        ((3, 4), 1, "region"),
        ((7, 5), 1, "region"),
        ((4, 4), 2, "pipeline"),
        ((3, 3), 2, "tensor"),
    ],
)
def test_every_pe_holds_the_same_values_whether_made_by_tiles_or_as_a_whole(
    mesh: tuple[int, int], wafers: int, mapping: str
) -> None:
    by_tiles, whole = (engine(SPEC, mesh, wafers=wafers, mapping=mapping, whole=w) for w in (False, True))
    assert len(by_tiles.arenas) == len(whole.arenas)
    for one, other in zip(by_tiles.arenas.values(), whole.arenas.values(), strict=True):
        np.testing.assert_array_equal(one.memory, other.memory)


@pytest.mark.parametrize(
    ("spec", "mesh", "wafers", "mapping"),
    [
        (SPEC, (1, 1), 1, "region"),
        (SPEC, (5, 4), 1, "region"),
        (SPEC, (3, 3), 2, "pipeline"),
        (SPEC, (3, 3), 2, "tensor"),
        (TRAITS, (4, 3), 1, "region"),
        (POSITIONS, (3, 4), 1, "region"),
        (latent_spec(), (3, 4), 1, "region"),
    ],
    ids=["1x1", "5x4", "two wafers in turn", "one region on two wafers", "traits", "positions", "latent"],
)
def test_logits_are_those_of_a_plain_decoder_on_the_same_weights(
    spec: ModelSpec, mesh: tuple[int, int], wafers: int, mapping: str
) -> None:
    run = engine(spec, mesh, wafers=wafers, mapping=mapping)
    found, tokens = logits(run), list(PROMPT)
    for got in found:
        want = plain_logits(spec, made(spec).__getitem__, tokens)[-1]
        np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
        tokens.append(int(got.argmax()))


@pytest.mark.slow
def test_a_model_of_many_layers_stays_within_float16() -> None:
    """Its logits are near to those without rounding."""
    spec = tiny_spec(layers=48, hidden=64, head_size=16, heads=4, ffn=128, tied=False)
    got = logits(engine(spec, (3, 3), dtype="float16"))[0]
    want = plain_logits(spec, made(spec).__getitem__, PROMPT)[-1]
    assert 0.5 < want.std() < 2
    assert np.abs(got - want).max() < 0.05 * np.abs(want).max()


@pytest.mark.slow
def test_sampled_layers_and_logits_of_a_published_shape_are_those_of_plain_numpy() -> None:
    """SmolLM2-135M in float16, each op within a hundredth of the largest value; weights as PEs store them."""
    spec, ids = load_model("smollm2-135m").spec, (1, 407, 9)
    options = Options(
        mapping="region",
        wafers=1,
        dtype="float16",
        accumulate="float32",
        context=8,
        prompt_tokens=(len(ids),),
        logits_out="all",
    )
    program = compile_model(spec, wafer(103, 103), SOFTWARE, options)
    sampled = ("embedding", *(f"layers.{i}.{op}" for i in (0, 14, 29) for op in ("output", "down")), "head")
    found: dict[str, npt.NDArray[np.generic]] = {}
    run = Engine(
        program,
        spec,
        RandomWeights(spec, 7).rows,
        watched=[program.op_names.index(name) for name in sampled],
        on_output=lambda op, values: found.update({program.op_names[op]: values}),
    )
    for _ in run.prefill(ids):
        pass
    wanted: dict[str, npt.NDArray[np.float64]] = {}
    weights = RandomWeights(spec, 7)
    want = plain_logits(spec, lambda name: weights.rows(name)[:].astype(np.float16), ids, tell=wanted.__setitem__)[-1]
    assert np.abs(run.logits[0] - want).max() < 0.01 * np.abs(want).max()
    for name in sampled:
        last, expected = np.asarray(found[name], np.float64)[-1], wanted[name][-1].reshape(-1)
        assert np.abs(last.reshape(-1) - expected).max() < 0.01 * np.abs(expected).max(), name
