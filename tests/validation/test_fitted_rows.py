"""Tests of which measurements constants were fitted to, and of the prediction intervals of all other rows."""

from collections import Counter
from dataclasses import replace
from math import exp
from pathlib import Path

import pytest
from tool_scripts import import_script

from wse.hardware.compute_engine import load_compute_engine
from wse.hardware.load import load_wafer
from wse.studies.validate.coverage import covered_fractions, prediction_intervals
from wse.studies.validate.fitted_rows import academic_group, is_fitted
from wse.studies.validate.gpu_calibration import CALIBRATIONS, calibration_rows, fit_rows
from wse.studies.validate.kinds import GPUS, MeasurementKind
from wse.studies.validate.measured.measurements import BUNDLED, Measurement, read
from wse.studies.validate.predictors.gpus import METHOD as GPU_METHOD
from wse.studies.validate.predictors.prediction import Prediction
from wse.studies.validate.predictors.services import METHODS
from wse.studies.validate.study import validate
from wse.studies.validate.summary import ComparedRow

FABRIC = "fabric model"
FIT = import_script("fit_compute_engine")


def test_every_fourth_row_of_the_research_kernels_is_fitted() -> None:
    rows = [m for m in read(BUNDLED / "waferllm_measured.csv") if academic_group(m)]
    fitted = Counter(academic_group(m) for m in rows if is_fitted(m, FABRIC))
    assert fitted == {"MeshGEMV": 30, "MeshGEMM": 33, "Shift": 27, "decode": 7}


def test_copies_and_roundings_of_fitted_rows_are_fitted_too() -> None:
    """Another table of the same paper states 2,700 tokens/s instead of 2,699.9."""
    rows = read(BUNDLED / "wse_microbench.csv")
    decode = [m for m in rows if m.kernel.startswith("decode") and m.text("algorithm").startswith("WaferLLM")]
    assert len(decode) == 6
    assert all(is_fitted(m, FABRIC) for m in decode)


def test_speeds_at_launch_are_fitted() -> None:
    method = next(iter(METHODS.values()))
    rows = [m for m in read(BUNDLED / "public_tokens_per_s.csv") if is_fitted(m, method)]
    assert [(m.text("model"), m.measured) for m in rows] == [
        ("Llama-3.1-8B", 1800.0),
        ("Llama-3.1-70B", 450.0),
        ("Llama-3.1-70B", 450.0),
    ]


def test_rows_of_a_microbenchmark_are_fitted_by_id_and_value(external_data: Path) -> None:
    rows = read(external_data / "reference" / "wse3_qwen3.csv")
    fits = FIT.fit_costs(rows, load_wafer("wse3"), load_compute_engine("epcc"))
    by_selection = {m.text("id") for fit in fits for m in fit.rows}
    fitted = {m.text("id"): m for m in rows if is_fitted(m, "kernels")}
    assert by_selection <= set(fitted)
    assert len(by_selection) == 31
    multicast = fitted["MCAST-01"]
    assert not is_fitted(replace(multicast, measured=50.0), "kernels")
    assert not is_fitted(replace(multicast, input=multicast.input | {"id": "MCAST-99"}), "kernels")


def test_messages_are_fitted_except_turns_of_a_path() -> None:
    rows = [m for m in read(BUNDLED / "wse_microbench.csv") if m.kernel == "point-to-point"]
    assert {m.text("metric") for m in rows if not is_fitted(m, FABRIC)} == {"cycles per turn"}


def test_rates_of_fitted_gpu_runs_are_fitted_but_not_their_ttft() -> None:
    bundled = read(BUNDLED / "gpu_baselines.csv")[:700]
    rows = fit_rows(bundled)
    lines = {row.measurement.line for stack in CALIBRATIONS for row in calibration_rows(stack, rows)}
    fitted = [m for m in bundled if is_fitted(m, GPU_METHOD)]
    assert lines
    assert lines <= {m.line for m in fitted}
    assert not any(m.text("metric").startswith("ttft") for m in fitted)


def row_of_gpu(source: str, predicted: float) -> ComparedRow:
    """Return a row with a measured value of 1 and a predicted value."""
    row = {"source_url": source, "metric": "tpot_ms"}
    m = Measurement(file="x.csv", line=2, table="gpu", input=row, measured=1.0, sizes={})
    return ComparedRow(m, Prediction(value=predicted, method=GPU_METHOD))


def test_interval_needs_the_errors_of_three_other_sources() -> None:
    """With one error of 0.1 from each source, the interval is that of Student's t with 3 degrees of freedom."""
    kind = MeasurementKind(name="stencils", where=GPUS)
    rows = [row_of_gpu("a", exp(0.1)), row_of_gpu("c", exp(-0.1)), row_of_gpu("d", exp(0.1)), row_of_gpu("b", 2.0)]
    assert prediction_intervals(kind, rows, 0.9)[3] == pytest.approx((2 * exp(-0.2353), 2 * exp(0.2353)), rel=1e-3)
    assert covered_fractions(kind, rows) == (0.75, 0.75)
    assert prediction_intervals(kind, rows[1:], 0.9) == [None, None, None]


def test_only_rows_without_a_fit_have_an_interval(external_data: Path) -> None:
    rows = validate([external_data / "reference" / "wse3_qwen3.csv"]).rows
    with_interval = [row for row in rows if row.low and row.high]
    assert {row.kind for row in with_interval if not row.fitted} == {
        *("decode steps", "forced tokens", "parts of a layer", "prefill", "messages")
    }
    assert not any(row.fitted for row in with_interval)
    assert all(row.low < row.predicted < row.high for row in with_interval)


def test_rows_of_decode_have_the_interval_of_estimates() -> None:
    """The interval is narrower for the software profile with the smaller errors."""
    kind = MeasurementKind(name="decode steps", where="WSE-3 silicon")
    m = Measurement(file="x.csv", line=2, table="inference", input={"source_path": "x"}, measured=1.0, sizes={})

    def fractions(software: str) -> tuple[float | None, ...]:
        predictions = (Prediction(value=value, method="kernels", software=software) for value in (1.1, 1.3))
        return covered_fractions(kind, [ComparedRow(m, prediction) for prediction in predictions])

    assert fractions("epcc") == (0.0, 0.5)
    assert fractions("production") == (1.0, 1.0)
