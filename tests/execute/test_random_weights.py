"""Random weights: the same values on every mesh, of the deviations that keep a deep model's activations finite."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from compiled import compile_model
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, tiny_spec
from trait_specs import POSITIONS, TRAITS

from wse.backends.execute.engine import Engine
from wse.backends.execute.weight_storage.random_weights import RandomWeights
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

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
    whole: bool = False,
    **wanted: Any,
) -> Engine:
    """An engine that makes weights as it reads them, or has them as a ``whole``."""
    options = region_options(context=len(PROMPT) + STEPS, prompt_tokens=(len(PROMPT),), logits_out="all", **wanted)
    program = compile_model(spec, wafer(*mesh, 1 << 20), SOFTWARE, options)
    return Engine(program, spec, made(spec).__getitem__ if whole else RandomWeights(spec, 7).rows)


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
    ("spec", "mesh", "wafers", "mapping"),
    [
        (SPEC, (1, 1), 1, "region"),
        (SPEC, (7, 5), 1, "region"),
        (SPEC, (4, 4), 2, "pipeline"),
        (SPEC, (3, 3), 2, "tensor"),
        (TRAITS, (4, 3), 1, "region"),
        (POSITIONS, (3, 4), 1, "region"),
        (latent_spec(), (3, 4), 1, "region"),
    ],
    ids=["1x1", "7x5", "two wafers in turn", "one region on two wafers", "traits", "positions", "latent"],
)
def test_values_by_tiles_are_those_of_the_whole(
    spec: ModelSpec, mesh: tuple[int, int], wafers: int, mapping: str
) -> None:
    by_tiles, whole = (engine(spec, mesh, wafers=wafers, mapping=mapping, whole=w) for w in (False, True))
    assert len(by_tiles.arenas) == len(whole.arenas)
    for one, other in zip(by_tiles.arenas.values(), whole.arenas.values(), strict=True):
        np.testing.assert_array_equal(one.memory, other.memory)
