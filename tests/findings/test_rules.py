"""Tests of the rules that decide claims, with stand-ins for estimates: verdicts, retries and the search for layers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.models.helpers import write_config
from wse.compiler.search.search import Breadth
from wse.errors import DoesNotFit, UnknownName
from wse.studies.claims import layers_that_fit
from wse.studies.claims.result import Claim, Finding
from wse.studies.claims.serving import Serving
from wse.studies.claims.shared_computations import SharedComputations
from wse.studies.claims.study import decide
from wse.studies.claims.topics.gpus import aggregate
from wse.studies.claims.topics.residency import CONTEXTS, short_context
from wse.studies.estimate.request import EstimateRequest


@pytest.mark.parametrize("max_layers", [0, 1, 2, 3, 19, 20, 21, 22, 40, 77])
@pytest.mark.parametrize("wafers", [1, 2])
def test_maximum_number_of_layers_is_found_from_any_start(
    max_layers: int, wafers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler is replaced by a limit of `max_layers` layers; a pipeline needs at least one layer per wafer."""
    tried: list[int] = []

    def prepare(request: EstimateRequest) -> SimpleNamespace:
        import json
        from pathlib import Path

        return SimpleNamespace(spec=int(json.loads(Path(str(request.model)).read_text())["num_hidden_layers"]))

    def compile_(estimate: SimpleNamespace, _: Breadth) -> None:
        tried.append(estimate.spec)
        if estimate.spec > max_layers:
            raise DoesNotFit("too many")

    monkeypatch.setattr(layers_that_fit, "prepare_estimate", prepare)
    monkeypatch.setattr(layers_that_fit, "compile_fastest", compile_)
    monkeypatch.setattr(layers_that_fit, "parameter_count", lambda layers: 10 * layers)
    shared_computations = SharedComputations()
    found = shared_computations.layers_that_fit("llama-3.1-70b", wafers, "bfloat16")
    expected = max_layers if max_layers >= wafers else 0
    assert found == (expected, 10 * expected)
    assert len(tried) == len(set(tried)) < 14
    assert shared_computations.layers_that_fit("llama-3.1-70b", wafers, "bfloat16") == found
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(
    ("longest_rate", "wafers", "verdicts", "answer_part"),
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
def test_verdict_on_long_context_depends_on_lost_speed_and_gpus(
    longest_rate: float, wafers: int, verdicts: tuple[str, ...], answer_part: str
) -> None:
    """In the second sample, GPUs take half the time."""

    class OneUserComputations(SharedComputations):
        """Rates that are lower only at the longest context."""

        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            return SimpleNamespace(system=SimpleNamespace(wafers=wafers if options["context"] == CONTEXTS[-1] else 4))

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(2, longest_rate if options["context"] == CONTEXTS[-1] else 950.0)

        def gpu_times(self, server: object) -> Any:
            return np.array([1.0, 0.5])

        def gpu(self, *options: Any, **more: Any) -> Any:
            return SimpleNamespace(rate_of_user=148.0)

    finding = short_context(OneUserComputations())
    assert finding.verdicts == verdicts
    assert answer_part in finding.answer


@pytest.mark.parametrize(
    ("rate", "ends", "verdicts", "answer_part"),
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
def test_verdict_on_all_users_depends_on_rate_and_cost(
    rate: float, ends: tuple[float, float], verdicts: tuple[str, ...], answer_part: str
) -> None:
    """Compare ten users on eight wafers with one user on eight GPUs, who gets 100 tokens/s at 6 USD per GPU hour.

    `rate` is the rate of a user on the wafers. A wafer costs 42 USD/h, and in the two samples the ends of the range.
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

    class AllUsersComputations(SharedComputations):
        """The same wafers and GPUs at all lengths."""

        def wafers_at_saturation(self, *options: Any, **more: Any) -> Serving:
            return serving(8, 10, rate, 42.0, ends)

        def gpu(self, *options: Any, **more: Any) -> Serving:
            return serving(8, 1, 100.0, 6.0, (6.0, 6.0))

        gpus_at_saturation = gpu

    is_given = ends[0] == ends[1]
    finding = aggregate(AllUsersComputations(price="wafer=42,h200=6,b200=3" if is_given else None))
    assert finding.verdicts == verdicts
    assert answer_part in finding.answer
    numbers = finding.numbers
    central = numbers["dearer_2048"].value
    assert central == pytest.approx(42 / 6 * 10 / rate)
    if not is_given:
        low, high = (numbers[f"dearer_2048_{end}"].value for end in ("low", "high"))
        assert (low, high) == pytest.approx((central * ends[0] / 42, central * ends[1] / 42))
    # Texts and rows for each combination of given prices.
    for price, phrases, meaning, ends_of in (
        (None, ("at central prices. This", "with cheap wafers and expensive GPUs,"), "at central prices", 3),
        ("wafer=42", ("the central GPU price. This", "with expensive GPUs,"), "the given wafer price and the ce", 2),
        ("wse3=42", ("the central GPU price. This", "with expensive GPUs,"), "the given wafer price and the ce", 2),
        ("h200=6", ("at the central wafer price", "with cheap wafers, and"), "and the given GPU price", 2),
        ("wafer=42,h200=6", ("at the given prices. A user",), "at the given prices", 0),
    ):
        finding = aggregate(AllUsersComputations(price=price, priced_names={"wafer", "wse3", "h200"}))
        assert all(phrase in finding.answer for phrase in phrases), finding.answer
        assert meaning in finding.numbers["dearer_8192"].meaning
        at_ends = {name for name in finding.numbers if name.endswith(("8192_low", "8192_high"))}
        assert len(at_ends) == 2 * ends_of
        assert ("usd_per_million_wafers_8192_low" in at_ends) == ("wafer's price is a cost" in finding.reason)
        assert ("usd_per_million_gpus_8192_low" in at_ends) == ("a GPU's a rental price" in finding.reason)


def test_given_price_of_a_gpu_is_used_in_claims_and_is_exact() -> None:
    bundled, given = SharedComputations(), SharedComputations(price="h200=8,wafer=60")
    before, after = (
        shared_computations.gpus_at_saturation("llama-3.1-70b", "h200", 1_024, 1_024)
        for shared_computations in (bundled, given)
    )
    assert after.usd_per_million_tokens == pytest.approx(2 * before.usd_per_million_tokens)  # bundled: 4 USD/h
    assert after.usd_per_million_tokens_ends == (after.usd_per_million_tokens,) * 2
    assert bundled.uncertain_names - given.uncertain_names == {"economics.gpu_usd_per_hour.h200"}


@pytest.mark.slow
def test_given_price_of_a_wafer_is_used_in_claims_and_is_exact(tmp_path: Path) -> None:
    shared_computations = SharedComputations(price="h200=8,wafer=60")
    serving = shared_computations.wafers_at_saturation(str(write_config(tmp_path)), 16, 8)
    assert serving.usd_per_million_tokens == pytest.approx(60 / 3_600 / serving.tokens_per_s * 1e6)
    assert serving.usd_per_million_tokens_ends == (serving.usd_per_million_tokens,) * 2
    assert "economics.wafer_usd_per_hour" not in shared_computations.uncertain_names
    assert shared_computations.priced_names == {"wafer", "wse3"}


def test_command_of_a_claim_has_the_wafer_price_that_this_claim_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(verdicts=("true", "true"), answer="", numbers={}, reason="")

    def with_prices(shared_computations: SharedComputations) -> Finding:
        shared_computations.priced_names |= {"wafer", "wse3", "h200"}
        return finding

    claims = [
        Claim(number=number, text="", source="", command="wse estimate story", decide=function)
        for number, function in enumerate((with_prices, lambda _: finding), 1)
    ]
    monkeypatch.setattr("wse.studies.claims.study.CLAIMS", claims)
    result, _ = decide(price="h200=2.5,wafer=60")
    assert [claim.command for claim in result.claims] == ["wse estimate story --price wafer=60", "wse estimate story"]
    assert result.note is None


def test_price_that_no_claim_uses_is_noted() -> None:
    result, _ = decide([8], price="wafer=60")
    assert result.note == "--price of wafer has no effect"
    assert "--price of wafer has no effect" in {row["text"] for row in result.tables()[0].rows}
    with pytest.raises(UnknownName, match="unknown wafer or GPU 'wafers'"):
        decide([8], price="wafers=60")
