"""Tests of distributions of selected experts: exact values for a few tokens, and the effect of a steeper popularity."""

from itertools import product
from typing import Final

import numpy as np
import pytest

from wse.program.routing import EVEN, expected_experts, measured_routing, rank_probabilities, zipf_routing

LAYERS: Final = 600
RECORDED: Final = np.array([[0, 1], [0, 2], [0, 1], [3, 4]], np.int32)
"""Two of five experts that each of four recorded tokens selected."""


def test_experts_and_maximum_load_of_a_pass_are_those_of_all_batches() -> None:
    routing = measured_routing("file", tuple(range(LAYERS)), np.tile(RECORDED, (LAYERS, 1, 1)), 5)
    batches = [np.bincount(RECORDED[list(batch)].ravel(), minlength=5) for batch in product(range(4), repeat=3)]
    assert expected_experts(5, 2, 3, routing) == pytest.approx(np.mean([(loads > 0).sum() for loads in batches]))
    passes = [routing.loads(layer, 3) for layer in range(LAYERS)]
    for statistic in (lambda loads: (loads > 0).sum(), max):
        exact, sampled = ([float(statistic(loads)) for loads in group] for group in (batches, passes))
        assert np.mean(sampled) == pytest.approx(np.mean(exact), abs=4 * np.std(exact) / LAYERS**0.5)


def test_larger_pass_contains_the_tokens_of_a_smaller_one() -> None:
    routing = zipf_routing((0, 3), 16, 2, 1.0)
    small, large = (routing.loads(3, tokens) for tokens in (5, 9))
    assert (large >= small).all()
    assert (small.sum(), large.sum()) == (10, 18)


@pytest.mark.parametrize(("count", "active", "exponent"), [(5, 4, 3.0), (128, 4, 1.0), (256, 8, 10.0)])
def test_zipf_selections_have_the_given_probabilities(count: int, active: int, exponent: float) -> None:
    routing = zipf_routing((1, 2), count, active, exponent)
    assert (np.diff(np.sort(routing.choices, axis=2), axis=2) > 0).all()
    frequencies = np.stack([np.bincount(layer.ravel(), minlength=count) for layer in routing.choices])
    tokens = routing.choices.shape[1]
    np.testing.assert_allclose(frequencies / tokens, routing.probabilities, atol=2.5 / tokens**0.5)
    ranked = np.sort(routing.probabilities, axis=1)[:, ::-1]
    np.testing.assert_allclose(ranked, np.tile(rank_probabilities(count, active, exponent), (2, 1)))
    uncapped = ranked[0][ranked[0] < 1]
    ranks = np.arange(count - len(uncapped), count) + 1
    np.testing.assert_allclose(uncapped / uncapped[-1], (ranks / count) ** -exponent)


def test_zipf_with_exponent_0_is_even_and_even_is_the_limit() -> None:
    assert zipf_routing((0,), 128, 4, 0.0) is EVEN
    almost_even = zipf_routing((0,), 128, 4, 1e-9)
    assert expected_experts(128, 4, 16, almost_even) == pytest.approx(128 * (1 - (1 - 4 / 128) ** 16))
    assert expected_experts(128, 4, 16) == expected_experts(128, 4, 16, EVEN)
