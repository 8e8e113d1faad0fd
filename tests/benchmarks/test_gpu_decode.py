"""Test of gpu_decode.py: with a GPU, its rows can be read; otherwise it reports what is missing."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import gpu_decode
import pytest

import wse
from wse.studies.validate.measured.measurements import read


def test_gpu_decode_writes_rows_or_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.csv"
    for name, few_values in {"BATCHES": (1, 2), "CONTEXTS": (64,), "PROMPTS": (64,), "VERIFIED": (2,)}.items():
        monkeypatch.setattr(gpu_decode, name, few_values)
    answer = gpu_decode.main("smollm2-135m", file)
    if not file.exists():
        assert answer.startswith("needs ")
        pytest.skip(answer)
    rows = read(file)
    assert {m.text("metric") for m in rows} == {"tpot_ms", "verify_ms", "ttft_ms", "product_ms"}
    assert all(m.measured for m in rows)


def test_measurements_of_an_h100_are_predicted_as_the_page_on_gpus_states() -> None:
    rows = wse.validate(Path(__file__).with_name("gpu_decode_h100.csv")).rows
    errors = [abs(row.error_pct) for row in rows if row.error_pct is not None]
    is_inside = [row.low <= row.measured <= row.high for row in rows if row.low is not None and row.high is not None]
    assert (len(rows), len(errors)) == (213, 189)
    assert median(errors) == pytest.approx(9.5, abs=0.05)
    assert sum(is_inside) / len(is_inside) == pytest.approx(0.85, abs=0.01)
