"""Tests of the bundled model errors: they equal the errors of predictions of the measurements."""

from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from tiers import AT_REQUEST

from wse.studies.estimate.ranges.model_error import ErrorKind
from wse.studies.validate.study import BUNDLED, validate


def _packed(script: ModuleType) -> list[dict[str, str]]:
    """Return the rows of the bundled file of model errors."""
    with script.FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_errors_are_ratios_of_known_kinds_with_one_per_row(script: ModuleType) -> None:
    rows = _packed(script)
    assert {row["kind"] for row in rows} == {*get_args(ErrorKind)}
    assert {"epcc", "production", "academic", "vllm", "trtllm"} <= {row["software"] for row in rows}
    assert all(0.2 < float(row["time_ratio"]) < 5 for row in rows)
    places = [(row["file"], row["row"]) for row in rows]
    assert len(places) == len(set(places))


def test_errors_of_inference_rows_are_those_of_the_file(script: ModuleType, external_data: Path) -> None:
    rows = validate([external_data / "reference" / "wse3_qwen3.csv"]).rows
    assert script.errors_of(rows) == [row for row in _packed(script) if row["software"] == "epcc"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("public_tokens_per_s.csv", marks=AT_REQUEST),
        "waferllm_measured.csv",
        "gpu_baselines.csv",
    ],
)
def test_errors_of_bundled_rows_are_those_of_their_files(name: str, script: ModuleType, tmp_path: Path) -> None:
    """Check the first row of each kind; of services, whose estimates take long, the first of the last kind."""
    packed = [row for row in _packed(script) if row["file"] == name]
    first = {row["kind"]: row for row in reversed(packed)}
    expected = [row for row in packed if row is first[row["kind"]]][-1 if name.startswith("public") else 0 :]
    lines = (BUNDLED / name).read_text(encoding="utf-8").splitlines(keepends=True)
    chosen_lines = [lines[0], *(lines[int(row["row"]) - 1] for row in expected)]
    (tmp_path / name).write_text("".join(chosen_lines), encoding="utf-8")
    errors = script.errors_of(validate([tmp_path / name]).rows)
    assert [row | {"row": ""} for row in errors] == [row | {"row": ""} for row in expected]
