"""The certainty of verdicts: rules in each sample, their shares, and the constant that would change a verdict."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wse.hardware.number import SourcedNumber
from wse.studies.claims.certainty import by_rule, certainty_of
from wse.studies.claims.laboratory import Laboratory
from wse.studies.claims.topics import chains, memory, residency
from wse.studies.estimate.ranges.samples import SAMPLES, probabilities_of
from wse.studies.estimate.ranges.study import SEED

NAMES = ("wafer.clock_hz", "wafer.wafer_link_latency_s", "software.relay_cycles")


def ranks(name: str) -> np.ndarray:
    """The ranks of the samples of a constant, from 0 to 1."""
    return probabilities_of(name, SAMPLES, SEED)


def test_a_rule_is_applied_to_each_case() -> None:
    holds, never = np.array([True, False, False]), np.array([False, True, False])
    assert by_rule(holds=holds, never=never) == ("true", "false", "conditional")
    assert by_rule(holds=True, never=False) == ("true",)
    assert by_rule(holds=False, never=never) == ("conditional", "false", "conditional")


def test_the_constant_that_decides_a_verdict_is_found_with_its_direction() -> None:
    is_slow = ranks(NAMES[1]) > 0.75
    certainty = certainty_of(
        by_rule(holds=np.append(False, is_slow), never=np.append(True, ~is_slow)), NAMES, is_counted=False
    )
    assert (certainty.verdict, certainty.share, certainty.samples) == ("false", 0.75, SAMPLES)
    assert certainty.decisive == "wafer.wafer_link_latency_s"
    assert certainty.text == (
        "The verdict is false in 192 of 256 samples of the uncertain constants (75 %), and true in 64, where "
        "wafer.wafer_link_latency_s is mostly higher."
    )


def test_chance_decides_nothing() -> None:
    is_true = np.random.default_rng(7).random(SAMPLES) < 0.6
    certainty = certainty_of(
        by_rule(holds=np.append(True, is_true), never=np.append(False, ~is_true)), NAMES, is_counted=False
    )
    assert certainty.decisive is None
    assert certainty.text.endswith("no single constant decides.")


def test_most_samples_outvote_the_stated_constants() -> None:
    is_true = ranks(NAMES[0]) > 0.25
    certainty = certainty_of(
        by_rule(holds=np.append(False, is_true), never=np.append(True, ~is_true)), NAMES, is_counted=False
    )
    assert certainty.verdict == "true"
    assert certainty.text.endswith("With the stated constants it is false.")


def test_verdicts_without_samples_say_why() -> None:
    assert "counts" in certainty_of(("true",), (), is_counted=True).text
    unknown = certainty_of(("true",), (), is_counted=False)
    assert "not sampled" in unknown.text
    assert unknown.share is unknown.samples is None


class OfWafers(Laboratory):
    """Speeds of a chain of wafers: a pass takes a unit of time on PEs and a time on each link."""

    link_ratio = 0.01

    def estimate(self, model: str, link: object = None, **options: Any) -> Any:
        decode = SimpleNamespace(tokens_per_s_per_user=1.0)
        tpot_by = SimpleNamespace(crossing_s=0.01)
        latency = SimpleNamespace(tpot_s=1.0, tpot_by=tpot_by, user=SimpleNamespace(outside_share=0.0))
        return SimpleNamespace(decode=decode, latency=latency, system=SimpleNamespace(wafers=4))

    def speeds(self, model: str, link: object = None, **options: Any) -> Any:
        link_s = self.sampled("wafer.wafer_link_latency_s", number(1.0, 0.5, 2.0)) * self.link_ratio
        return 1 / (1 + link_s * (options["wafers"] - 1))


def number(value: float, low: float, high: float) -> SourcedNumber:
    """A number with a range."""
    return SourcedNumber(value=value, unit="s", grade="I", source="test", range=(low, high))


@pytest.mark.parametrize(
    ("link_ratio", "verdict", "decisive"), [(0.01, "false", None), (0.25, "false", NAMES[1]), (3.0, "true", None)]
)
def test_slower_links_change_the_verdict_on_chains(link_ratio: float, verdict: str, decisive: str | None) -> None:
    lab = OfWafers()
    lab.link_ratio = link_ratio
    certainty = certainty_of(chains.longer_pipeline(lab).verdicts, lab.uncertain_names, is_counted=False)
    assert certainty.verdict == verdict
    assert (certainty.share == 1.0) == (decisive is None)
    assert certainty.decisive == decisive


@pytest.mark.parametrize(
    ("power_w", "verdict", "share", "decisive"),
    [
        ((23_000, 15_000, 23_000), "true", 0.63, "economics.wafer_power_w"),
        ((23_000, 23_000, 23_000), "true", 1.0, None),
        ((15_000, 15_000, 15_000), "false", 1.0, None),
    ],
)
def test_another_power_of_a_wafer_changes_the_verdict_on_large_models(
    power_w: tuple[float, float, float],
    verdict: str,
    share: float,
    decisive: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve wafers need a quarter of a megawatt, the minimum of the claim, at 20.8 kW each."""

    class OfTwelveWafers(Laboratory):
        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            return SimpleNamespace(system=SimpleNamespace(wafers=12))

    monkeypatch.setattr(residency, "load_economics", lambda wafer: SimpleNamespace(power_w=number(*power_w)))
    lab = OfTwelveWafers()
    certainty = certainty_of(residency.dense_400b(lab).verdicts, lab.uncertain_names, is_counted=False)
    assert certainty.verdict == verdict
    assert certainty.share == pytest.approx(share, abs=0.01)
    assert certainty.decisive == decisive


@pytest.mark.parametrize(("bytes_per_s", "verdict"), [(150e9, "true"), (150e12, "false")])
def test_a_faster_host_link_changes_the_verdict_on_streamed_weights(
    bytes_per_s: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfOneSpeed(Laboratory):
        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            schedule = SimpleNamespace(tokens_per_s_at_saturation=3_000.0)
            return SimpleNamespace(system=SimpleNamespace(wafers=4), schedule=schedule)

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(1 + SAMPLES, 950.0)

    bandwidth = number(bytes_per_s, 0.9 * bytes_per_s, bytes_per_s)
    monkeypatch.setattr(memory, "provenance", lambda wafer: {"host_bytes_per_s": bandwidth})
    certainty = certainty_of(memory.weights_from_outside(OfOneSpeed()).verdicts, NAMES, is_counted=False)
    assert (certainty.verdict, certainty.share) == (verdict, 1.0)
