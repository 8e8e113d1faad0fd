"""Drafting ahead: closed forms, the measured curves, and published gains."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from wse.errors import BadInput
from wse.serving.drafts.speculation import Acceptance, acceptance_of, best_draft, measured_curves, speed_up, typical


def tokens_per_pass(acceptance: float, draft: int) -> float:
    """Where each drafted token is accepted with one probability: Leviathan et al., arXiv 2211.17192, equation 1."""
    return sum(acceptance**n for n in range(draft + 1))


@given(st.floats(0, 0.99), st.integers(1, 20), st.floats(0, 2))
def test_speed_up_is_that_of_the_paper_where_checking_is_free(acceptance: float, draft: int, cost: float) -> None:
    """Leviathan et al., arXiv 2211.17192, theorem 3.8."""
    expected = (1 - acceptance ** (draft + 1)) / ((1 - acceptance) * (draft * cost + 1))
    assert speed_up(tokens_per_pass(acceptance, draft), draft, cost) == pytest.approx(expected)


def test_published_gains_of_deepseek_r1() -> None:
    """8 B200 at batch 1: 1.78, 2.28, 2.15 times with 1, 3, 5 drafted tokens, each of 7 to 9 % of a step."""
    curve = acceptance_of("DeepSeek-R1")
    for draft, gain in ((1, 1.78), (3, 2.28), (5, 2.15)):
        assert speed_up(curve.at(draft), draft, 0.09) < gain * 1.005
        assert speed_up(curve.at(draft), draft, 0.07) > gain * 0.995
    assert best_draft(curve, lambda n: speed_up(curve.at(n), n, 0.08))[0] == 3


@given(st.sampled_from(measured_curves()), st.floats(0, 1), st.floats(0, 1))
def test_best_draft_is_the_best_of_all_lengths(curve: Acceptance, draft_cost: float, more: float) -> None:
    """Where each further token of a pass costs ``more``; only as many are tried as it takes to see that."""
    tried = []

    def gain_of(tokens: int) -> float:
        tried.append(tokens)
        return speed_up(curve.at(tokens), tokens, draft_cost, 1.0 + more * tokens)

    length, gain = best_draft(curve, gain_of)
    lengths = range(1, max(curve.draft_tokens) + 1)
    gains = [speed_up(curve.at(n), n, draft_cost, 1.0 + more * n) for n in lengths]
    assert gain == pytest.approx(max(1.0, *gains))
    assert len(tried) <= length + 2 or not length or gain > max(gains[length:])


def test_second_peak_is_found_where_there_may_be_one() -> None:
    """The second draft token costs more than it yields, and further ones cost nothing."""
    curve = acceptance_of("GLM-5.2")

    def verify_cost(tokens: int) -> float:
        return 1.0 if tokens <= 2 else 1.6

    lengths = range(1, max(curve.draft_tokens) + 1)
    gains = {n: speed_up(curve.at(n), n, 0.0, verify_cost(n + 1)) for n in lengths}
    assert gains[1] > gains[2]
    assert best_draft(curve, gains.__getitem__) == (1, gains[1])
    best = max(gains, key=lambda n: gains[n])
    assert best > 2
    assert best_draft(curve, gains.__getitem__, has_one_peak=False) == (best, gains[best])


@pytest.mark.parametrize("curve", measured_curves(), ids=lambda curve: curve.model)
def test_measured_curve_is_one(curve: Acceptance) -> None:
    """From 1 it rises, by less with each token of the draft, and no faster than the draft grows."""
    points = [(0, 1.0), *zip(curve.draft_tokens, curve.tokens_per_pass, strict=True)]
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in pairwise(points)]
    assert all(after <= before + 1e-9 for before, after in pairwise(slopes))
    assert 0 < slopes[-1] <= slopes[0] <= 1
    assert curve.grade == "M"
    assert len(curve.source) > 15
    for draft, yielded in points:
        assert curve.at(draft) == pytest.approx(yielded)
    assert curve.at(100) == curve.tokens_per_pass[-1]
    assert curve.tokens_per_pass[-1] < tokens_per_pass(slopes[0], curve.draft_tokens[-1]), "constant acceptance is more"


def test_typical_curve_is_the_geometric_mean_at_measured_lengths() -> None:
    curve = typical(measured_curves())
    for draft in curve.draft_tokens:
        product = math.prod(c.at(draft) for c in measured_curves())
        assert curve.at(draft) == pytest.approx(product ** (1 / len(measured_curves())))
    assert curve.grade == "I"


def test_what_is_no_draft_is_refused() -> None:
    for draft_cost, verify_cost in ((-0.1, 1.0), (math.nan, 1.0), (math.inf, 1.0), (0.1, -1.0), (0.0, 0.0)):
        assert refusal(BadInput, speed_up, 2.0, 2, draft_cost, verify_cost) == (
            f"draft cost {draft_cost}, verify cost {verify_cost}: give times over that of a plain pass, "
            "of at least 0, and not both 0"
        )
    assert refusal(BadInput, acceptance_of("DeepSeek-R1").at, -1) == "draft of -1 tokens: give a number of at least 0"


def test_model_without_a_curve_takes_the_typical_one() -> None:
    assert acceptance_of("deepseek r1").model == "DeepSeek-R1"
    assert acceptance_of("deepseek-r1") is acceptance_of("DeepSeek-R1")
    assert acceptance_of("llama-3.1-70b") == typical(measured_curves())
