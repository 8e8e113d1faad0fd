"""Tests of the certainty of verdicts on claims: the fraction of samples with a verdict, and the decisive constant."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wse.hardware.number import SourcedNumber
from wse.studies.claims.certainty import by_rule, certainty_at_ends, certainty_of
from wse.studies.claims.layers_that_fit import LayersThatFit
from wse.studies.claims.serving import Serving
from wse.studies.claims.shared_computations import SharedComputations
from wse.studies.claims.topics import chains, gpus, links, memory, residency
from wse.studies.claims.topics.residency import parameters_that_fit
from wse.studies.estimate.ranges.constants import SAMPLES, probabilities_of

NAMES = ("wafer.clock_hz", "wafer.wafer_link_latency_s", "software.relay_cycles")


def ranks(name: str) -> np.ndarray:
    """Return the ranks of the samples of a constant, from 0 to 1."""
    return probabilities_of(name, SAMPLES)


def test_rule_is_applied_to_each_case() -> None:
    holds, never = np.array([True, False, False]), np.array([False, True, False])
    assert by_rule(holds=holds, never=never) == ("true", "false", "conditional")
    assert by_rule(holds=True, never=False) == ("true",)
    assert by_rule(holds=False, never=never) == ("conditional", "false", "conditional")


def test_decisive_constant_is_found_with_its_direction() -> None:
    is_slow = ranks(NAMES[1]) > 0.75
    certainty = certainty_of(by_rule(holds=np.append(False, is_slow), never=np.append(True, ~is_slow)), NAMES)
    assert (certainty.verdict, certainty.share, certainty.samples) == ("false", 0.75, SAMPLES)
    assert certainty.decisive == "wafer.wafer_link_latency_s"
    assert certainty.text == (
        "The verdict is false in 192 of 256 samples of the uncertain constants (75 %), and true in 64. Samples "
        "with another verdict mostly have a higher wafer.wafer_link_latency_s."
    )


def test_random_verdicts_have_no_decisive_constant() -> None:
    is_true = np.random.default_rng(7).random(SAMPLES) < 0.6
    certainty = certainty_of(by_rule(holds=np.append(True, is_true), never=np.append(False, ~is_true)), NAMES)
    assert certainty.decisive is None
    assert certainty.text.endswith("no single constant decides.")


def test_verdict_is_that_of_most_samples() -> None:
    is_true = ranks(NAMES[0]) > 0.25
    certainty = certainty_of(by_rule(holds=np.append(False, is_true), never=np.append(True, ~is_true)), NAMES)
    assert certainty.verdict == "true"
    assert certainty.text.endswith("With the stated constants, the verdict is false.")


def test_verdict_on_counts_is_decided_at_both_ends_of_the_ranges() -> None:
    certainty = certainty_at_ends(("true", "true", "true"))
    assert certainty.text == (
        "The verdict is true with the stated constants, with all uncertain constants at the low ends of their ranges, "
        "and with all of them at the high ends. It was not decided for samples."
    )
    assert certainty.share is certainty.samples is None
    assert certainty_at_ends(("true", "false", "true")).text == (
        "The verdict is true with the stated constants, false with all uncertain constants at the low ends of their "
        "ranges and true with all uncertain constants at the high ends of their ranges."
    )


class ChainComputations(SharedComputations):
    """Estimates of a chain of wafers: a pass takes 1 s on PEs, plus `link_ratio` x latency per link."""

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
    """Return a number with a range."""
    return SourcedNumber(value=value, unit="s", grade="I", source="test", range=(low, high))


@pytest.mark.parametrize(
    ("link_ratio", "verdict", "decisive"), [(0.01, "false", None), (0.25, "false", NAMES[1]), (3.0, "true", None)]
)
def test_slower_links_change_the_verdict_on_chains(link_ratio: float, verdict: str, decisive: str | None) -> None:
    shared_computations = ChainComputations()
    shared_computations.link_ratio = link_ratio
    certainty = certainty_of(chains.longer_pipeline(shared_computations).verdicts, shared_computations.uncertain_names)
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
def test_power_of_a_wafer_changes_the_verdict_on_large_models(
    power_w: tuple[float, float, float],
    verdict: str,
    share: float,
    decisive: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve wafers need a quarter of a megawatt, the minimum of the claim, at 20.8 kW per wafer."""

    class TwelveWaferComputations(SharedComputations):
        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            return SimpleNamespace(system=SimpleNamespace(wafers=12))

    monkeypatch.setattr(residency, "load_economics", lambda wafer: SimpleNamespace(power_w=number(*power_w)))
    shared_computations = TwelveWaferComputations()
    certainty = certainty_of(residency.dense_400b(shared_computations).verdicts, shared_computations.uncertain_names)
    assert certainty.verdict == verdict
    assert certainty.share == pytest.approx(share, abs=0.01)
    assert certainty.decisive == decisive


@pytest.mark.parametrize(("bytes_per_s", "verdict"), [(150e9, "true"), (150e12, "false")])
def test_faster_host_link_changes_the_verdict_on_streamed_weights(
    bytes_per_s: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneSpeedComputations(SharedComputations):
        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            schedule = SimpleNamespace(tokens_per_s_at_saturation=3_000.0)
            return SimpleNamespace(system=SimpleNamespace(wafers=4), schedule=schedule)

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(1 + SAMPLES, 950.0)

    bandwidth = number(bytes_per_s, 0.9 * bytes_per_s, bytes_per_s)
    monkeypatch.setattr(memory, "provenance", lambda wafer: {"host_bytes_per_s": bandwidth})
    certainty = certainty_of(memory.weight_streaming_speed(OneSpeedComputations()).verdicts, NAMES)
    assert (certainty.verdict, certainty.share) == (verdict, 1.0)


@pytest.mark.parametrize(("values", "verdict"), [((7168, 7168), "true"), ((7168, 26416), "conditional")])
def test_more_values_between_wafers_change_the_verdict_on_the_residual_stream(
    values: tuple[int, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = [SimpleNamespace(from_wafer=i, to_wafer=i + 1, bytes_per_token=2 * n) for i, n in enumerate(values)]
    result = SimpleNamespace(crossing=SimpleNamespace(cuts=cuts))
    monkeypatch.setattr(links, "estimates_at_ends", lambda model: (result,) * 3)
    assert links.residual_stream(SharedComputations()).verdicts == (verdict,) * 3


@pytest.mark.parametrize(
    ("rates", "verdict", "share"), [((250.0, 300.0), "conditional", 0.61), ((40.0, 60.0), "false", 1.0)]
)
def test_slower_small_chips_change_their_verdict(
    rates: tuple[float, float], verdict: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If 70B runs at less than 95 tokens/s, a model with 61 of its 80 layers is slower than 125 tokens/s."""
    monkeypatch.setattr(memory, "RATE", number(float(np.sqrt(rates[0] * rates[1])), *rates))
    shared_computations = SharedComputations()
    certainty = certainty_of(memory.small_chips(shared_computations).verdicts, shared_computations.uncertain_names)
    assert (certainty.verdict, certainty.share) == (verdict, pytest.approx(share, abs=0.01))
    assert certainty.decisive == (memory.LAYER_TIME if share < 1 else None)


@pytest.mark.parametrize(
    ("cost_ratio", "verdict", "share"), [(7.5, "true", 0.957), (2.0, "false", 0.652), (0.3, "false", 1.0)]
)
def test_cheaper_small_batches_change_the_verdict_on_mixtures(cost_ratio: float, verdict: str, share: float) -> None:
    class TwoBatchComputations(SharedComputations):
        def gpu(self, model: str, gpu: str, users: int, *lengths: int) -> Any:
            tokens_per_s = 100.0 if users < gpus.LARGE else 100.0 * cost_ratio
            return Serving(
                machines=8,
                users=users,
                rate_of_user=1.0,
                tokens_per_s=tokens_per_s,
                usd_per_million_tokens=1.0,
                usd_per_million_tokens_ends=(1.0, 1.0),
            )

    shared_computations = TwoBatchComputations()
    certainty = certainty_of(gpus.experts_need_users(shared_computations).verdicts, shared_computations.uncertain_names)
    assert (certainty.verdict, certainty.share) == (verdict, pytest.approx(share, abs=0.01))


@pytest.mark.parametrize(("stage_ratio", "verdict"), [(0.07, "true"), (0.6, "false")])
def test_slower_stage_changes_the_verdict_on_idle_stages(stage_ratio: float, verdict: str) -> None:
    class OneStreamComputations(SharedComputations):
        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            row = SimpleNamespace(bubble_fraction=0.9, streams=1, fill_and_drain_bubble_fraction=0.9)
            schedule = SimpleNamespace(stages=16, streams_to_saturate=14, rows=[row], kv_limited_streams=1)
            return SimpleNamespace(schedule=schedule, system=SimpleNamespace(wafers=4))

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(1 + SAMPLES, 950.0)

        def saturated_speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(1 + SAMPLES, 950.0 / stage_ratio)

    certainty = certainty_of(chains.bubbles(OneStreamComputations()).verdicts, NAMES)
    assert (certainty.verdict, certainty.share) == (verdict, 1.0)


def test_parameters_that_fit_decrease_with_the_bytes_of_software() -> None:
    class TenLayerComputations(SharedComputations):
        def layers_that_fit(self, model: str, wafers: int, dtype: str) -> Any:
            return LayersThatFit(layers=10, parameters=10**10)

    shared_computations, pes = TenLayerComputations(), 1_170 * 755
    for wafers, dtype, parameter_bytes in ((1, "bfloat16", 2), (2, "int8", 1)):
        parameters = parameters_that_fit(shared_computations, "llama-3.1-70b", wafers, dtype)
        assert parameters[0] == 10**10
        more_bytes = (parameters - 10**10) * parameter_bytes / (wafers * pes)
        # The extra bytes per PE are 512 + 512 + 384 + 256 and the scales of int8.
        assert more_bytes.max() < 1664 * 1.02
        assert more_bytes.min() > -1536  # 512 + 512 + 0 + 512
        assert np.std(more_bytes) > 100
    assert "software.stack_bytes_per_pe" in shared_computations.uncertain_names


@pytest.mark.parametrize(
    ("speed", "billions", "verdict"), [(950.0, 17.5, "conditional"), (90.0, 17.5, "true"), (950.0, 10.0, "false")]
)
def test_sizes_and_speed_decide_whether_a_fast_model_is_small(
    speed: float, billions: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneSizeComputations(SharedComputations):
        def layers_that_fit(self, model: str, wafers: int, dtype: str) -> Any:
            return LayersThatFit(layers=10, parameters=int(billions * 1e9) * (1 if dtype == "bfloat16" else 2))

        def estimate(self, model: str, link: object = None, **options: Any) -> Any:
            return SimpleNamespace(
                decode=SimpleNamespace(tokens_per_s_per_user=speed), system=SimpleNamespace(wafers=4)
            )

        def speeds(self, model: str, link: object = None, **options: Any) -> Any:
            return np.full(1 + SAMPLES, speed)

    shared_computations = OneSizeComputations()
    certainty = certainty_of(
        residency.size_of_one_wafer(shared_computations).verdicts, shared_computations.uncertain_names
    )
    assert (certainty.verdict, certainty.share) == (verdict, 1.0)


def test_faster_gpus_change_the_verdict_on_fast_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = []
    for gain in (1.0, 1.5, 6.0):

        class TwoGpuComputations(SharedComputations):
            def drafts(self, *options: Any, **more: Any) -> Any:
                return SimpleNamespace(speed_up=1.9, draft_tokens=3)

            def gpu(self, model: str, gpu: str, *options: Any, gain: float = gain) -> Any:
                return SimpleNamespace(rate_of_user=100.0 * (gain if gpu == "b200" else 1.0))

        shared_computations = TwoGpuComputations()
        certainty = certainty_of(
            gpus.drafts_or_hardware(shared_computations).verdicts, shared_computations.uncertain_names
        )
        verdicts.append(certainty.verdict)
    assert verdicts == ["false", "conditional", "true"]
