"""Test of gpu_decode.py: with a GPU, its rows can be read; otherwise it reports what is missing."""

from __future__ import annotations

from pathlib import Path

import gpu_decode
import pytest

from wse.studies.validate.measured.measurements import read


def test_it_measures_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.csv"
    for name, few in {"BATCHES": (1, 2), "CONTEXTS": (64,), "PROMPTS": (64,), "VERIFIED": (2,)}.items():
        monkeypatch.setattr(gpu_decode, name, few)
    answer = gpu_decode.main("smollm2-135m", file)
    if not file.exists():
        assert answer.startswith("needs ")
        pytest.skip(answer)
    rows = read(file)
    assert {m.text("metric") for m in rows} == {"tpot_ms", "verify_ms", "ttft_ms", "product_ms"}
    assert all(m.measured for m in rows)
