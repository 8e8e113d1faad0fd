"""Tests of rows about published services on wafers: the request of each row, its prediction, and the wafers needed."""

from pathlib import Path

import pytest

from tests.support.measurement_rows import file_of
from wse.studies.estimate.ranges.model_error import error_distribution
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import get_option, make_request
from wse.studies.validate.coverage import alternatives_of, undisclosed_settings
from wse.studies.validate.measured.measurements import Measurement, parse
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.predictors.prediction import Prediction
from wse.studies.validate.predictors.services import (
    METRICS,
    RATES,
    ServiceEstimate,
    ServiceRequest,
    answer,
    service_request,
)
from wse.studies.validate.study import capacity_of, compare, wafers_needed
from wse.studies.validate.summary import ComparedRow

ROW = {
    "source_url": "x",
    "date": "2024-08-27",
    "vendor_or_independent": "vendor",
    "system": "Cerebras CS-3 (WSE-3)",
    "chips": "4",
    "model": "Llama-3.1-70B",
    "precision": "16-bit",
    "spec_decode": "no",
    "batch_or_concurrency": "1",
    "context": "8k (launch limit)",
    "metric": "output_tok_s_per_user",
    "value": "450",
}


def row(**columns: str) -> Measurement:
    """Return a row about Llama-3.1-70B on 4 wafers with changed columns."""
    (found,) = parse(file_of({**ROW, **columns}, table="public"), "rows.csv")
    return found


def request_of(**columns: str) -> ServiceRequest:
    """Return the request of `ROW` with changed columns."""
    found = service_request(row(**columns))
    assert found is not None
    return found


def test_request_of_a_row_has_its_settings() -> None:
    request = request_of().request
    assert (request.model, request.machine.wafer, request.wafers, request.serving.batch) == (
        "llama-3.1-70b",
        "wse3",
        4,
        1,
    )
    assert (request.machine.software, request.mapping, request.types.dtype, request.context) == (
        "production",
        "bands",
        "bfloat16",
        8192,
    )
    assert (request.workload.prompt_len, request.workload.new_tokens) == (1024, 1024)


@pytest.mark.parametrize(
    ("columns", "name", "value"),
    [
        ({"chips": ""}, "wafers", None),
        ({"model": "Meta Llama 3.1 8B Instruct"}, "model", "llama-3-8b"),
        ({"system": "Cerebras CS-2"}, "wafer", "wse2"),
        ({"precision": "FP8"}, "dtype", "fp8"),
        ({"precision": "4-bit weights (60 GB)"}, "dtype", "int4"),
        ({"precision": "fp16"}, "dtype", "float16"),
        ({"precision": ""}, "dtype", "bfloat16"),
        ({"precision": "", "model": "gpt-oss-120b"}, "dtype", "mxfp4"),
        ({"precision": "", "model": "DeepSeek-V3"}, "dtype", "fp8"),
        ({"context": ""}, "context", None),
        ({"context": "4,096 mean"}, "context", 4096),
        ({"context": "1000k"}, "context", 131072),
        ({"context": "1k"}, "prompt_len", 512),
        ({"context": "1024 in / 128 out"}, "new_tokens", 128),
        ({"context": "2k/1k"}, "prompt_len", 2048),
        ({"batch_or_concurrency": "16"}, "batch", 16),
    ],
)
def test_request_has_the_value_of_each_column(columns: dict[str, str], name: str, value: object) -> None:
    assert get_option(request_of(**columns).request, name) == value


@pytest.mark.parametrize(
    ("columns", "drafts"),
    [
        ({}, False),
        ({"spec_decode": "no (inferred from date)"}, False),
        ({"spec_decode": "no", "date": "2026-01"}, False),
        ({"spec_decode": "yes"}, True),
        ({"spec_decode": "", "date": "2024-09-30"}, False),
        ({"spec_decode": "", "date": "2024-10-01"}, True),
        ({"spec_decode": "not stated", "date": "2025-02"}, True),
        ({"spec_decode": "unknown", "date": "2024"}, False),
        ({"spec_decode": "unknown", "date": "n.d."}, False),
        ({"spec_decode": "unknown", "date": "n.d. (after 2025-12-30)"}, True),
        ({"spec_decode": "unknown", "date": "n.d.", "model": "Llama-3.3-70B"}, True),
        ({"spec_decode": "yes", "batch_or_concurrency": "8"}, False),
    ],
)
def test_rows_have_drafts_by_text_or_date(columns: dict[str, str], drafts: bool) -> None:  # noqa: FBT001
    assert bool(request_of(**columns).drafts_of) is drafts


@pytest.mark.parametrize(
    ("date", "schedule", "method"),
    [
        ("2024-08-27", "baseline", "estimate"),
        ("2024-10-24", "optimized", "estimate, optimized"),
        ("n.d. (after 2025-12-30)", "optimized", "estimate, optimized"),
    ],
)
def test_services_from_october_2024_have_the_fused_schedule(date: str, schedule: str, method: str) -> None:
    schedules: list[str] = []

    def by_schedule(service: ServiceRequest) -> ServiceEstimate:
        schedules.append(service.request.layout.schedule)
        value = {"baseline": 100.0, "optimized": 180.0}[service.request.layout.schedule]
        return ServiceEstimate(
            values=dict.fromkeys(METRICS, value), fits=True, gain=1.0, tokens_per_pass=1.0, bound_ratio=2.0
        )

    found = answer(row(date=date, spec_decode="no"), request_of(date=date, spec_decode="no"), by_schedule)
    assert schedules[0] == schedule
    assert (found.value, found.other_schedule) == ((100.0, 180.0) if schedule == "baseline" else (180.0, 100.0))
    assert found.method == method


def made_estimate(request: ServiceRequest) -> ServiceEstimate:
    """Return an estimate with values from 100 on, a gain of 1.5 and 2 tokens per pass with drafts."""
    values = {metric: float(i + 100) for i, metric in enumerate(METRICS)}
    return ServiceEstimate(values=values, fits=True, gain=1.5, tokens_per_pass=2.0, bound_ratio=3.0)


def test_drafts_speed_up_tokens_but_not_the_first_one() -> None:
    rate = answer(row(spec_decode="yes"), request_of(spec_decode="yes"), made_estimate)
    assert (rate.value, rate.plain, rate.free_drafts, rate.bound) == (150.0, 100.0, 200.0, 600.0)
    first = answer(
        row(metric="ttft_s", spec_decode="yes"), request_of(metric="ttft_s", spec_decode="yes"), made_estimate
    )
    assert first.value == first.plain == 100.0 + len(RATES)
    assert first.free_drafts is first.bound is None


def test_row_with_drafts_has_both_values_and_both_errors() -> None:
    m = row(spec_decode="yes", value="200")
    with_drafts = ComparedRow(m, answer(m, request_of(spec_decode="yes"), made_estimate)).as_row()
    assert (with_drafts.predicted, with_drafts.predicted_plain) == (150.0, 100.0)
    assert (with_drafts.error_pct, with_drafts.error_plain_pct) == (-25.0, -50.0)
    assert "predicted_plain" not in ComparedRow(m, Prediction(value=1.0, method="x")).as_row().to_dict()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"metric": "price_out_usd_per_Mtok"}, "a price"),
        ({"metric": "modelled_tok_s_per_user"}, "a result of another model, not a measurement"),
        ({"metric": "wafers_for_one_copy"}, "users that the row does not state"),
        ({"metric": "sram_GB"}, "a property of a machine"),
        ({"model": "GPT-5.3-Codex-Spark"}, "GPT-5.3-Codex-Spark"),
        ({"precision": "3/6-bit"}, "element type"),
        ({"batch_or_concurrency": "48-64"}, "users"),
        ({"chips": "some"}, "wafers"),
        ({"system": "Groq LPU"}, "not measured on a wafer"),
        ({"context": "200000 in / 1 out"}, "131,072"),
        ({"system": "Cerebras WSE-2 (WaferLLM)", "metric": "ttft_s"}, "tokens per second"),
        ({"system": "Cerebras WSE-2 (WaferLLM)", "model": "gpt2"}, "shape"),
    ],
)
def test_row_without_a_prediction_has_a_reason(columns: dict[str, str], reason: str) -> None:
    found = predict(row(**columns))
    assert found.value is None
    assert reason in found.reason


@pytest.mark.slow
def test_small_model_is_predicted_with_and_without_drafts() -> None:
    """The rate with drafts is above the rate without, by a smaller factor than the tokens of a pass."""
    columns = {"model": "SmolLM2-135M", "chips": "1", "context": "32", "spec_decode": "yes", "value": "1000"}
    (found,) = compare([row(**columns)], lambda *_: None)
    prediction = found.prediction
    assert prediction.reason == ""
    assert prediction.plain is not None
    assert prediction.value is not None
    assert prediction.plain < prediction.value < 4 * prediction.plain
    assert prediction.software == "production"


def test_waferllm_rates_are_those_of_its_best_grid() -> None:
    found = predict(row(system="Cerebras WSE-2 (WaferLLM)", model="Llama-3-8B", chips="1", value="2700"))
    assert found.software == "academic"
    assert found.value == pytest.approx(2700, rel=0.03)  # the tolerance for rows that state their grid


def request(model: str, wafers: int | None = None) -> EstimateRequest:
    """Return a request in bfloat16 with automatic mapping."""
    return make_request(EstimateRequest, model=model, wafers=wafers, mapping="auto", dtype="bfloat16")


def test_small_model_needs_one_wafer_with_each_profile() -> None:
    needed = wafers_needed(request("smollm2-135m"))
    assert [(each.software, each.wafers) for each in needed] == [("production", 1), ("tuned", 1), ("academic", 1)]


def test_capacity_lists_models_with_stated_wafers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.studies.validate.study.wafers_needed", lambda request: ())
    rows = [row(), row(value="446", context=""), row(chips=""), row(metric="price_out_usd_per_Mtok")]
    assert service_request(rows[0]) is not None
    assert [(c.model, c.wafers, c.dtype) for c in capacity_of(rows)] == [("llama-3.1-70b", 4, "bfloat16")]


def test_settings_that_a_row_does_not_state_are_alternatives() -> None:
    prediction = Prediction(value=200.0, plain=150.0, method="estimate, optimized", software="production")
    assert alternatives_of(row(), prediction) == ((1.0, 1.0),)
    assert alternatives_of(row(chips="", precision="", metric="ttft_s"), prediction) == ((1.0, 1.0),)
    assert alternatives_of(row(spec_decode="unknown"), prediction) == ((0.75, 1.0), (0.25, 0.75))
    every_setting = alternatives_of(row(chips="", precision="", spec_decode=""), prediction)
    assert len(every_setting) == 2 * (1 + 3) * (1 + 3)
    assert sum(weight for weight, _ in every_setting) == pytest.approx(1)
    assert every_setting[0] == (0.75 * 0.25, 1.0)
    ratios = [undisclosed_settings()[name][1]["rate_ratios"]["no_drafts"][-1] for name in ("wafers", "precision")]
    assert every_setting[-1] == pytest.approx((0.25 * 0.25 / 9, 0.75 * ratios[0] * ratios[1]))


def test_page_of_assumptions_lists_every_alternative_with_its_weight() -> None:
    page = (Path(__file__).parents[2] / "docs" / "assumptions.md").read_text(encoding="utf-8")
    for alternatives in undisclosed_settings().values():
        assert sum(row["weight"] for row in alternatives) == 1
        for alternative in alternatives:
            assert f"| {alternative['choice']} | {100 * alternative['weight']:g} % |" in page


def test_interval_of_a_row_covers_its_alternatives() -> None:
    error = error_distribution([1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08], list("abcdefgh"))
    without_drafts = ((0.75, 1.0), (0.25, 0.6))
    for predicted_over_measured, alone, mixed in ((1.0, True, True), (1 / 0.6, False, True), (0.8, False, False)):
        for alternatives, is_inside in ((((1.0, 1.0),), alone), (without_drafts, mixed)):
            low, high = error.interval(0.9, alternatives)
            assert (low < 1 / predicted_over_measured < high) == is_inside
