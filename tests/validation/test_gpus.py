"""Tests of rows about GPUs: how they are read, their predictions, their errors, and the fit of stack constants."""

from dataclasses import replace
from pathlib import Path

import pytest

import wse.studies.validate.study as module
from tests.support.measurement_rows import file_of
from wse.errors import BadMeasurements
from wse.reports.progress import ignore
from wse.serving.gpus.load import load_stack
from wse.serving.gpus.roofline import Parallelism
from wse.studies.validate.gpu_calibration import CALIBRATIONS, FitRow, calibration_rows, fit, fit_rows
from wse.studies.validate.measured.measurements import Measurement, parse, read
from wse.studies.validate.measured.terms import gpu_of, parallelism_of, stack_of
from wse.studies.validate.predictors.gpus import ServingRow, predict, serving_row, value_of
from wse.studies.validate.predictors.prediction import Declined, Prediction
from wse.studies.validate.study import BUNDLED, compare, validate
from wse.studies.validate.summary import ComparedRow, gpu_errors

ROW = {
    "source_url": "https://example.org/aiconfigurator/silicon_sample.csv",
    "date": "2025-11-02",
    "system": "NVIDIA H100 SXM",
    "chips": "4",
    "model": "Llama-3-70B",
    "precision": "fp8",
    "spec_decode": "no",
    "batch_or_concurrency": "16",
    "context": "1024/1024",
    "metric": "tpot_ms",
    "value": "13.2",
    "framework": "vllm",
    "parallelism": "TP4",
}


def measurement(**cells: str) -> Measurement:
    """Return the measurement of `ROW` with changed cells."""
    return next(parse(file_of({**ROW, **cells}, table="gpu"), "rows.csv"))


def serving(**cells: str) -> ServingRow:
    """Return the serving conditions of `ROW` with changed cells."""
    row = serving_row(measurement(**cells))
    assert row is not None
    return row


def value(**cells: str) -> float:
    """Return the predicted value of `ROW` with changed cells."""
    prediction = predict(measurement(**cells))
    assert prediction is not None
    assert prediction.value is not None
    return prediction.value


@pytest.mark.parametrize(
    ("cells", "stack"),
    [
        ({"framework": "vllm 0.18.0"}, "vllm"),
        ({"framework": "vLLM 0.5.4", "date": "2026-01-01"}, "vllm-2024"),
        ({"framework": "vllm", "date": "2024-09"}, "vllm-2024"),
        ({"framework": "vLLM", "source_url": "https://github.com/argonne-lcf/LLM-Inference-Bench"}, "vllm-2024"),
        ({"framework": "trtllm 1.2.0rc6.post2"}, "trtllm"),
        ({"framework": "TensorRT-LLM 0.6.1"}, "trtllm-2024"),
        ({"framework": "sglang 0.5.9"}, "sglang"),
        ({"framework": "gpt-fast"}, None),
    ],
)
def test_stack_is_found_by_version_or_date(cells: dict[str, str], stack: str | None) -> None:
    assert stack_of(measurement(**cells)) == stack


def test_gpus_and_layouts_are_found_by_name() -> None:
    names = [
        "NVIDIA GB200 (NVL72)",
        "NVIDIA B200 SXM (HGX/DGX)",
        "NVIDIA A100 (Argonne)",
        "NVIDIA A100 SXM 80GB",
        "L40S",
    ]
    assert [gpu_of(measurement(system=name)) for name in names] == ["gb200", "b200", "a100-40gb", "a100", None]
    by_data = parallelism_of(measurement(chips="8", parallelism="TP1 ADP8 EP8"))
    assert by_data == Parallelism(gpus=8, attention_by_data=True, whole_experts=True)
    assert parallelism_of(measurement(chips="")) is None


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"system": "TPU v5"}, "does not state a known GPU"),
        ({"precision": "bf16", "chips": "1"}, "wse estimate refuses it"),
    ],
)
def test_rows_without_a_prediction_have_a_reason(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(Declined, match=reason):
        predict(measurement(**cells))


def test_metrics_of_one_load_agree() -> None:
    """A rate is the number of users over the time between tokens, reduced by the time to the first token."""
    tpot = value()
    total = value(metric="system_output_tok_s")
    assert total == pytest.approx(4 * value(metric="output_tok_s_per_gpu"))
    assert total == pytest.approx(16 * value(metric="output_tok_s_per_user"))
    assert 0.9 < total * tpot / 1e3 / 16 < 1


def test_prompts_of_users_that_start_together_are_read_first() -> None:
    argonne = {"source_url": "https://github.com/argonne-lcf/LLM-Inference-Bench", "framework": "vllm 0.18.0"}
    together, apart = (value(metric="tpot_ms", **cells) for cells in (argonne, {}))
    assert together < apart, "no prompt is read between two tokens"


def test_max_load_is_the_largest_number_of_users_that_can_be_served() -> None:
    """A load of "max load" is all users that fit the cache, but no more than the stack puts into one pass."""
    row = {"metric": "system_output_tok_s", "model": "Llama-3.1-8B", "chips": "1"}
    for context, users in (("128/128", "2048"), ("2048/2048", "4096")):
        max_load, stated = (value(**row, context=context, batch_or_concurrency=load) for load in ("max load", users))
        assert max_load == pytest.approx(stated)


def test_rows_of_the_one_gpu_benchmark_are_single_passes() -> None:
    """The benchmark times single passes, without prompts of other users; a pass may have several new tokens."""
    row = {"framework": "graph", "model": "llama-3-8b", "precision": "bf16", "chips": "1", "context": "1023/2"}
    decode = value(metric="tpot_ms", **row)
    verify = value(metric="verify_ms", **{**row, "context": "1024/4"})
    assert decode < verify < 1.3 * decode
    assert value(metric="ttft_ms", **{**row, "context": "1024/1", "batch_or_concurrency": "1"}) > decode


def test_users_beyond_the_cache_wait() -> None:
    fitting, waiting = (
        value(metric="system_output_tok_s", model="Llama-2-7B", precision="fp16", chips="1", batch_or_concurrency=users)
        for users in ("50", "500")
    )
    assert waiting == pytest.approx(fitting, rel=0.2)


def test_fit_finds_the_constants_that_made_the_rows() -> None:
    """The rows are predicted with other constants than the bundled ones, and the fit must return these constants."""
    made = replace(load_stack("vllm", "hopper"), layer_s=9e-5, all_reduce_s=1.4e-5, link_ratio=0.6)
    rows = []
    for chips in ("1", "2", "4", "8"):
        for users in ("1", "16", "64"):
            cells = {"chips": chips, "batch_or_concurrency": users, "system": "NVIDIA H200 SXM"}
            conditions = serving(**cells)
            measured_row = measurement(**cells, value=repr(value_of(conditions, "tpot_ms", made)))
            rows.append(FitRow(measurement=measured_row, conditions=conditions))
    constants = fit(rows, ("layer_s", "all_reduce_s", "link_ratio"))
    assert constants == pytest.approx({"layer_s": 9e-5, "all_reduce_s": 1.4e-5, "link_ratio": 0.6}, rel=0.03)


@pytest.mark.slow
def test_stack_has_the_constants_that_the_rows_give() -> None:
    rows = calibration_rows("vllm-2024", fit_rows(read(BUNDLED / "gpu_baselines.csv")))
    known = load_stack("vllm-2024", "hopper")
    for key, fitted in fit(rows, CALIBRATIONS["vllm-2024"].keys).items():
        if fitted > 1e-6:
            assert getattr(known, key.partition(".")[0]) == pytest.approx(fitted, rel=0.02), key


@pytest.fixture(scope="module")
def bundled() -> list[ComparedRow]:
    """Return the comparison of all bundled rows about GPUs."""
    return compare(read(BUNDLED / "gpu_baselines.csv"), ignore)


def test_errors_of_fitted_rows_are_below_their_limits(bundled: list[ComparedRow]) -> None:
    """The errors are means over all rows that some stack was fitted to, with the constants of that stack."""
    rows = {row.measurement.line: row for row in bundled}
    of_stacks = (calibration_rows(stack, fit_rows(row.measurement for row in bundled)) for stack in CALIBRATIONS)
    fitted = [rows[row.measurement.line] for stack in of_stacks for row in stack]
    assert len(fitted) == 625
    assert all(row.prediction.value is not None for row in fitted)
    errors = {group.group: group for group in gpu_errors(fitted)}
    assert errors["dense 70B"].mean_abs_error_pct < 6
    assert errors["8B on one GPU"].mean_abs_error_pct < 4
    assert errors["mixtures"].mean_abs_error_pct < 11
    assert all(abs(errors[group].bias_pct) < 3 for group in ("dense 70B", "8B on one GPU", "dense", "mixtures"))


def test_errors_of_published_rows_are_below_their_limits(bundled: list[ComparedRow]) -> None:
    """The goals are 10 % on dense 70B, 5 % on 8B on one GPU, 20 % on mixtures, 18 % on H100, H200 (aiconfigurator)."""
    assert sum(row.prediction.value is not None for row in bundled) == 1368
    errors = {group.group: group for group in gpu_errors(bundled)}
    found = {name: (group.rows, round(group.mean_abs_error_pct, 1), group.bias_pct) for name, group in errors.items()}
    assert errors["dense 70B"].mean_abs_error_pct < 7, found
    assert errors["8B on one GPU"].mean_abs_error_pct < 5, found
    assert errors["mixtures"].mean_abs_error_pct < 15, found
    assert errors["H100 and H200, users that come and go"].mean_abs_error_pct < 11, found
    bare = errors["H100 and H200, users that come and go"].bare_roofline_ratio
    assert bare is not None
    assert 0.37 < bare < 0.43, "the published ratio of a bare roofline on 177 of these rows is 0.40"
    for group in ("dense 70B", "8B on one GPU", "H100 and H200, users that come and go"):
        assert abs(errors[group].bias_pct) < 3, found


def test_bundled_file_is_found_by_name_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the same name in the current folder takes precedence."""
    monkeypatch.chdir(tmp_path)
    name = "public_tokens_per_s.csv"
    bundled = (BUNDLED / name).read_text(encoding="utf-8")
    monkeypatch.setattr(module, "compare", lambda rows, *_: [ComparedRow(row, Prediction(reason="-")) for row in rows])
    monkeypatch.setattr(module, "wafers_needed", lambda request: ())
    assert validate([Path(name)]).summary.rows == len(read(BUNDLED / name))
    (tmp_path / name).write_text("\n".join(bundled.splitlines()[:5]), encoding="utf-8")
    assert validate([Path(name)]).summary.rows == 4
    with pytest.raises(BadMeasurements, match=r"public_tokens\.csv: does not exist"):
        validate([Path("public_tokens.csv")])
