"""Tests of the bundled published speeds against the files from which they were packed."""

import csv
from pathlib import Path
from types import ModuleType

from wse.serving.gpus.load import known_gpus
from wse.studies.validate.measured.measurements import read


def test_packed_services_are_those_of_the_file(script: ModuleType, external_data: Path) -> None:
    rows = read(external_data / "reference" / "public_tokens_per_s.csv")
    packed = (script.DATA / "public_speeds.csv").read_text(encoding="utf-8")
    assert script.text_of(script.service_points(rows)) == packed
    assert "modelled" not in packed


def test_packed_benchmarks_are_those_of_the_file(script: ModuleType, external_data: Path) -> None:
    rows = read(external_data / "reference" / "gpu_baselines.csv")
    packed = (script.DATA / "gpu_speeds.csv").read_text(encoding="utf-8")
    assert script.text_of(script.gpu_points(rows)) == packed


def test_benchmarks_are_unique_and_of_known_gpus(script: ModuleType) -> None:
    with (script.DATA / "gpu_speeds.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["machine"] for row in rows} <= set(known_gpus())
    assert all(row["chips"] and row["users"] and row["weight_bits"] for row in rows)
    keys = [tuple(row[column] for column in script.SAME_BENCHMARK) for row in rows]
    assert len(keys) == len(set(keys))
