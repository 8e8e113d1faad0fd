"""The rules that claims are decided by, apart from the estimates: verdicts, retries, and the search for layers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.errors import DoesNotFit
from wse.findings import laboratory
from wse.findings.claim import by_rule
from wse.findings.laboratory import Laboratory
from wse.findings.retries import break_even_accuracy
from wse.request.estimate_request import EstimateRequest


def test_a_claim_is_true_in_all_cases_false_in_none_else_conditional() -> None:
    assert by_rule(holds=True, never=False) == "true"
    assert by_rule(holds=False, never=True) == "false"
    assert by_rule(holds=False, never=False) == "conditional"


@given(accuracy=st.floats(0.05, 1), ratio=st.floats(1, 20), steps=st.integers(1, 30))
def test_at_break_even_both_models_take_as_long(accuracy: float, ratio: float, steps: int) -> None:
    """Expected tries of n steps that are checked together are 1/p^n; a try of the fast model takes 1/ratio as long."""
    least = break_even_accuracy(accuracy, ratio, steps)
    assert (1 / least**steps) / ratio == pytest.approx(1 / accuracy**steps)


def test_break_even_holds_for_steps_that_are_tried_until_they_are_right() -> None:
    rng = np.random.default_rng(7)
    accuracy, ratio = 0.9, 3.0
    slow = rng.geometric(accuracy, 200_000).mean()
    fast = rng.geometric(break_even_accuracy(accuracy, ratio), 200_000).mean() / ratio
    assert fast == pytest.approx(slow, rel=0.01)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 19, 20, 21, 22, 40, 77])
@pytest.mark.parametrize("wafers", [1, 2])
def test_the_most_layers_are_found_wherever_the_search_begins(
    most: int, wafers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the compiler takes up to ``most`` layers; a pipeline has a layer a wafer at least."""
    tried: list[int] = []

    def prepare(request: EstimateRequest) -> int:
        import json
        from pathlib import Path

        return int(json.loads(Path(str(request.model)).read_text())["num_hidden_layers"])

    def compile_(layers: int) -> None:
        tried.append(layers)
        if layers > most:
            message = "too many"
            raise DoesNotFit(message)

    monkeypatch.setattr(laboratory, "prepare_estimate", prepare)
    monkeypatch.setattr(laboratory, "compile_fastest", compile_)
    monkeypatch.setattr(laboratory, "_parameters", lambda layers: 10 * layers)
    lab = Laboratory()
    found = lab.layers_that_fit("llama-3.1-70b", wafers, "bfloat16")
    expected = most if most >= wafers else 0
    assert found == (expected, 10 * expected)
    assert len(tried) == len(set(tried)) < 14
    assert lab.layers_that_fit("llama-3.1-70b", wafers, "bfloat16") == found
    assert len(tried) == len(set(tried))
