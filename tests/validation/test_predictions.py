"""Tests of predictions of published measurements: their errors, the reasons of missing ones, and the bundled files."""

from collections.abc import Callable
from pathlib import Path

import pytest

import wse.studies.validate.study as module
from tests.support.measurement_rows import GOOD, file_of
from wse.studies.validate.measured.measurements import Measurement, parse, read
from wse.studies.validate.predictors.predict import PREDICTORS, predict
from wse.studies.validate.predictors.prediction import Declined, Prediction
from wse.studies.validate.study import BUNDLED, compare, default_files
from wse.studies.validate.summary import ComparedRow

Rows = list[ComparedRow]


@pytest.fixture(scope="module")
def bundled() -> Rows:
    """Return the comparison of the rows about collectives, links and PEs; other test modules have the other rows."""
    return compare(read(BUNDLED / "wse_microbench.csv"), lambda *_: None)


def errors(rows: Rows, wanted: Callable[[Measurement], bool]) -> list[float]:
    """Return the absolute errors in percent, in rising order, of the predicted rows that `wanted` selects."""
    found = [row for row in rows if wanted(row.measurement) and row.error_pct is not None]
    assert found
    return sorted(abs(row.error_pct) for row in found if row.error_pct is not None)


def row(**columns: str) -> Measurement:
    """Return a row about a chain reduce on 512 PEs with changed columns."""
    (m,) = parse(file_of({**GOOD, **columns}), "m.csv")
    return m


def test_all_rows_of_modelled_kernels_are_predicted(bundled: Rows) -> None:
    assert sum(row.prediction.value is not None for row in bundled) == 552
    assert len(bundled) == 678


def test_simulator_logs_of_collectives_are_predicted_exactly(bundled: Rows) -> None:
    def is_exact_log(m: Measurement) -> bool:
        return m.platform.startswith("WSE-2 SDK fabric simulator") and m.evidence == "exact"

    found = errors(bundled, is_exact_log)
    assert len(found) == 39
    assert max(found) == 0, f"worst {max(found):.2f} % of 39 rows, expected exactly 0"
    star = errors(bundled, lambda m: m.text("algorithm").startswith("star"))
    assert max(star) < 2


def test_tables_of_published_formulas_are_reproduced_to_their_rounding(bundled: Rows) -> None:
    def is_derived(m: Measurement) -> bool:
        return m.platform.startswith("model") and m.evidence == "derived-from-published-formula"

    found = [r for r in bundled if is_derived(r.measurement)]
    assert len(found) == 177
    for r in found:
        assert r.prediction.method == "closed form"
        decimals = len(r.measurement.input["value"].partition(".")[2])
        assert r.prediction.value is not None
        assert r.measurement.measured is not None
        assert abs(r.prediction.value - r.measurement.measured) <= 0.5 * 10**-decimals + 1e-9, r.measurement.line


def test_links_have_a_median_error_of_at_most_5_percent(bundled: Rows) -> None:
    found = errors(bundled, lambda m: m.kernel == "point-to-point" and m.text("metric") != "fixed cycles")
    assert found[len(found) // 2] <= 5


@pytest.mark.parametrize(
    ("kernel", "median", "worst"),
    [("stencil 5-pt", 7, 13), ("stencil 2D star", 9, 47), ("GEMM local multiply", 11, 11), ("copy fp32", 25, 25)],
)
def test_errors_of_kernels_on_one_pe_are_below_their_limits(
    bundled: Rows, kernel: str, median: float, worst: float
) -> None:
    """The bounds are the present errors, not a target; the test detects that the model gets worse."""
    found = errors(bundled, lambda m: m.kernel == kernel and m.text("metric") != "setup cycles")
    assert found[len(found) // 2] <= median
    assert found[-1] <= worst


def test_only_the_last_predictor_answers_every_row() -> None:
    unknown = row(kernel="something new", algorithm="", platform="")
    assert not any(predictor(unknown) for predictor in PREDICTORS[:-1])
    with pytest.raises(Declined):
        PREDICTORS[-1](unknown)
    assert predict(unknown).reason == "this kernel is not modelled: something new"


def test_error_is_signed_and_relative_to_the_measured_value() -> None:
    (m,) = parse(file_of({**GOOD, "value": "3000"}), "m.csv")
    assert ComparedRow(m, predict(m)).error_pct == pytest.approx(100 * 128 / 3000)
    (m,) = parse(file_of({**GOOD, "value": "0"}), "m.csv")
    assert ComparedRow(m, predict(m)).error_pct is None


ALGORITHMS = [
    ("reduce", "binary tree (second code version)"),
    ("reduce", "auto-gen"),
    ("reduce", "two-phase S=5"),
    ("reduce", "star"),
    ("2D reduce", "X-Y chain"),
    ("reduce", "snake"),
    ("reduce", "K-tree, group_num=3"),
    ("all-reduce", "K-tree, K=3"),
    ("reduce", "K-tree, K=1"),
    ("allreduce", "chain + broadcast"),
    ("all-reduce", "two-way chain"),
    ("all-reduce", "ring"),
    ("broadcast", "flooding multicast"),
]


@pytest.mark.parametrize(("kernel", "algorithm"), ALGORITHMS)
@pytest.mark.parametrize("platform", ["WSE-2 SDK simulator", "CS-3 (WSE-3) silicon"])
def test_collectives_of_any_size_are_predicted_on_both_generations(kernel: str, algorithm: str, platform: str) -> None:
    """Every collective has a prediction, with more cycles for more words and for more PEs."""

    def cycles(cols: int, rows: int, words: int) -> float:
        size = {"grid_w": str(cols), "grid_h": str(rows), "vector_len_bytes": str(4 * words)}
        found = predict(row(kernel=kernel, algorithm=algorithm, platform=platform, **size))
        assert found.value is not None, found.reason
        return found.value

    line = 1 if not algorithm.startswith(("X-Y", "snake")) else 3
    assert cycles(33, line, 10) < cycles(33, line, 100)
    assert cycles(12, line, 10) < cycles(33, line, 10)


def test_time_is_cycles_over_the_clock_of_the_preset() -> None:
    cycles = predict(row()).value
    assert cycles is not None
    assert predict(row(metric="us")).value == pytest.approx(cycles / 850)
    assert predict(row(metric="ms", platform="WSE-3 simulator")).value == pytest.approx(
        (predict(row(platform="WSE-3 simulator")).value or 0) / 875_000
    )


def test_code_version_selects_the_software_profile() -> None:
    first = predict(row(algorithm="two-phase S=32 (first code version)"))
    second = predict(row(algorithm="two-phase S=32 (second code version)"))
    by_commit = predict(row(algorithm="two-phase S=32", source="github:pr0f3ss/SpMM_Cerebras@2892da6"))
    assert (first.software, second.software) == ("tuned, descriptors loaded per operation", "tuned")
    assert first.value == by_commit.value
    assert first.value is not None
    assert second.value is not None
    assert first.value > second.value


FORMULA = {"platform": "model WSE-2", "value_kind": "derived-from-published-formula"}
REASONS = [
    ({"platform": "some machine"}, "generation"),
    ({"grid_w": ""}, "grid"),
    ({"vector_len_bytes": ""}, "bytes"),
    ({"algorithm": "butterfly"}, "no pattern"),
    ({"kernel": "broadcast", "algorithm": "chain"}, "no pattern"),
    ({"algorithm": "snake", "grid_w": "750", "grid_h": "994"}, "timed one by one"),
    ({"algorithm": "auto-gen", "grid_w": "4096"}, "larger than the mesh"),
    ({"algorithm": "two-phase S=0"}, "groups"),
    ({"algorithm": "ring"}, "all-reduce along one line"),
    ({"kernel": "allreduce", "algorithm": "ring", "grid_w": "601"}, "timed one by one"),
    ({"algorithm": "K-tree, group_num=9", "grid_h": "3"}, "groups"),
    ({"kernel": "point-to-point", "grid_w": "", "grid_h": ""}, "grid"),
    ({"kernel": "point-to-point", "metric": "cycles per word task-based relay"}, "relay"),
    ({"kernel": "stencil 5-pt", "metric": "cycles per iteration"}, "cells"),
    ({"kernel": "stencil", "metric": "cycles per iteration", "algorithm": "tile 0x3, radius 1"}, "empty"),
    ({"kernel": "GEMM local multiply"}, "M, N and K"),
    ({"kernel": "GEMM local multiply", "M,N,K": "8,8,8", "dtype": "f7"}, "element type"),
    ({"kernel": "GEMM local multiply", "M,N,K": "8,8,8", "metric": "cycles per element"}, "not the cycles"),
    ({**FORMULA, "platform": "model"}, "formula"),
    ({**FORMULA, "algorithm": "butterfly"}, "closed"),
    (
        {"platform": "model WSE-2", "value_kind": "derived-from-published-formula", "algorithm": "two-phase S=999"},
        "two",
    ),
]


@pytest.mark.parametrize(("columns", "reason"), REASONS, ids=[str(list(c.values()))[:50] for c, _ in REASONS])
def test_row_without_a_prediction_has_a_reason(columns: dict[str, str], reason: str) -> None:
    found = predict(row(**columns))
    assert found.value is None
    assert reason in found.reason


def test_multicast_is_predicted_with_counters_of_the_sdk_and_with_one_clock() -> None:
    """The measured values are the lower envelope in EPCC's working notes, 2026."""
    for pes, bytes_, cycles in ((256, 64, 293), (512, 64, 549), (512, 1024, 819), (512, 2048, 1107)):
        size = {"grid_w": str(pes), "vector_len_bytes": str(bytes_), "platform": "CS-3 (WSE-3) silicon"}
        aligned = predict(row(kernel="multicast", algorithm="multicast line", **size)).value
        assert aligned == pytest.approx(cycles, rel=0.02)
        corrected = predict(row(kernel="multicast", algorithm="multicast line", note="re-corrected", **size)).value
        assert corrected == pytest.approx(cycles + pes - 1, rel=0.02)


def test_default_files_are_the_bundled_ones_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = tmp_path / "shared" / "reference"
    reference.mkdir(parents=True)
    (reference / "a.csv").write_text(file_of(GOOD))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("WSE_SHARED", str(tmp_path / "shared"))
    assert [path.name for path in default_files()] == [
        "gpu_baselines.csv",
        "public_tokens_per_s.csv",
        "waferllm_measured.csv",
        "wse_microbench.csv",
    ]
    assert {path.parent for path in default_files()} == {BUNDLED}


def test_bundled_rows_name_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result names bundled files without their folder, so it is the same on all machines."""
    monkeypatch.setattr(module, "wafers_needed", lambda request: ())
    monkeypatch.setattr(
        module, "compare", lambda rows, *_: [ComparedRow(row, Prediction(reason="later")) for row in rows]
    )
    result = module.validate()
    assert {row.file for row in result.rows} == {path.name for path in default_files()}
    assert str(BUNDLED) not in str(result.to_dict())
