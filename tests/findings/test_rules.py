"""The rules that claims are decided by, apart from the estimates: verdicts, retries, and the search for layers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.errors import DoesNotFit
from wse.studies.claims import layers_that_fit
from wse.studies.claims.laboratory import Laboratory
from wse.studies.claims.serving import Serving
from wse.studies.claims.topics.gpus import aggregate
from wse.studies.claims.topics.residency import CONTEXTS, break_even_accuracy, short_context
from wse.studies.estimate.request import EstimateRequest


@given(accuracy=st.floats(0.05, 1), ratio=st.floats(1, 20), steps=st.integers(1, 30))
def test_at_break_even_both_models_take_as_long(accuracy: float, ratio: float, steps: int) -> None:
    """Expected tries of n steps that are checked together are 1/p^n; a try of the fast model takes 1/ratio as long."""
    least = break_even_accuracy(accuracy, ratio, steps)
    assert (1 / least**steps) / ratio == pytest.approx(1 / accuracy**steps)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 19, 20, 21, 22, 40, 77])
@pytest.mark.parametrize("wafers", [1, 2])
def test_most_layers_are_found_wherever_the_search_begins(
    most: int, wafers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the compiler takes up to ``most`` layers; a pipeline has a layer a wafer at least."""
    tried: list[int] = []

    def prepare(request: EstimateRequest) -> SimpleNamespace:
        import json
        from pathlib import Path

        return SimpleNamespace(spec=int(json.loads(Path(str(request.model)).read_text())["num_hidden_layers"]))

    def compile_(estimate: SimpleNamespace) -> None:
        tried.append(estimate.spec)
        if estimate.spec > most:
            message = "too many"
            raise DoesNotFit(message)

    monkeypatch.setattr(layers_that_fit, "prepare_estimate", prepare)
    monkeypatch.setattr(layers_that_fit, "compile_fastest", compile_)
    monkeypatch.setattr(layers_that_fit, "parameter_count", lambda layers: 10 * layers)
    lab = Laboratory()
    found = lab.layers_that_fit("llama-3.1-70b", wafers, "bfloat16")
    expected = most if most >= wafers else 0
    assert found == (expected, 10 * expected)
    assert len(tried) == len(set(tried)) < 14
    assert lab.layers_that_fit("llama-3.1-70b", wafers, "bfloat16") == found
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(
    ("longest_rate", "wafers", "verdicts", "said"),
    [
        (
            250.0,
            6,
            ("conditional", "true"),
            "(250 of 950 tokens/s), and the KV cache needs 6 wafers instead of 4. This is 1.7 times",
        ),
        (100.0, 6, ("true", "true"), "0.7 times the speed of a single user on 8 H200"),
        (900.0, 6, ("conditional", "conditional"), "95 %"),
        (900.0, 4, ("false", "false"), "95 %"),
    ],
)
def test_long_context_is_slow_where_half_the_speed_is_lost_and_gpus_are_as_fast(
    longest_rate: float, wafers: int, verdicts: tuple[str, ...], said: str
) -> None:
    """In the second sample, GPUs take half as long."""

    class OfOneUser(Laboratory):
        """Rates that fall at the longest context alone."""

        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            return SimpleNamespace(system=SimpleNamespace(wafers=wafers if options["context"] == CONTEXTS[-1] else 4))

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(2, longest_rate if options["context"] == CONTEXTS[-1] else 950.0)

        def gpu_times(self, server: object) -> Any:
            return np.array([1.0, 0.5])

        def gpu(self, *options: Any, **more: Any) -> Any:
            return SimpleNamespace(rate_of_user=148.0)

    finding = short_context(OfOneUser())
    assert finding.verdicts == verdicts
    assert said in finding.answer


@pytest.mark.parametrize(
    ("rate", "ends", "verdicts", "said"),
    [
        (25.0, (42.0, 42.0), ("conditional",) * 3, "25 tokens/s, a user of the GPUs 100.0 and 100.0. The wafers"),
        (900.0, (42.0, 42.0), ("false",) * 3, "900 tokens/s, a user of the GPUs 100.0 and 100.0. Which"),
        (900.0, (42.0, 600.0), ("false", "false", "conditional"), "100.0. Which"),
        (5.0, (42.0, 42.0), ("true",) * 3, "100.0. Which"),
        (15.0, (42.0, 42.0), ("true",) * 3, "100.0. The wafers generate more tokens/s in total, but few"),
        (15.0, (20.0, 42.0), ("true", "conditional", "true"), "100.0. The wafers generate more"),
        (15.0, (8.0, 42.0), ("true", "false", "true"), "100.0. Which"),
    ],
)
def test_all_users_get_few_tokens_where_they_cost_three_times_as_much(
    rate: float, ends: tuple[float, float], verdicts: tuple[str, ...], said: str
) -> None:
    """Ten users on eight wafers, whose rate is given, against one on eight GPUs with 100 tokens/s at 6 dollars.

    The price of a wafer is 42 dollars, and in two samples that of either end.
    """

    def serving(machines: int, users: int, rate: float, usd: float, ends: tuple[float, float]) -> Serving:
        low, central, high = (machines * price / 3600 / (users * rate) * 1e6 for price in (ends[0], usd, ends[1]))
        return Serving(
            machines=machines,
            users=users,
            rate_of_user=rate,
            tokens_per_s=users * rate,
            usd_per_million_tokens=central,
            usd_per_million_tokens_ends=(low, high),
            sampled_usd_per_million_tokens=np.array([low, high]),
        )

    class OfAllUsers(Laboratory):
        """The same wafers and GPUs at all lengths."""

        def wafers_for_all(self, *options: Any, **more: Any) -> Serving:
            return serving(8, 10, rate, 42.0, ends)

        def gpu(self, *options: Any, **more: Any) -> Serving:
            return serving(8, 1, 100.0, 6.0, (6.0, 6.0))

        gpus_for_all = gpu

    finding = aggregate(OfAllUsers())
    assert finding.verdicts == verdicts
    assert said in finding.answer
    low, central, high = (finding.numbers[f"dearer_2048{end}"].value for end in ("_low", "", "_high"))
    assert central == pytest.approx(42 / 6 * 10 / rate)
    assert (low, high) == pytest.approx((central * ends[0] / 42, central * ends[1] / 42))
