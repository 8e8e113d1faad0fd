"""The tables of a comparison, with the widest numbers that a large machine gives."""

from __future__ import annotations

import io
from typing import Any

import pytest

from wse.report.rows_csv import as_csv
from wse.studies.compare.rows import COLUMNS
from wse.studies.compare.table import limits, print_comparison

ROW: dict[str, Any] = {
    "mapping": "auto",
    "chosen": "pipeline",
    "wafers": 128,
    "link_bytes_per_s": 150e9,
    "link_latency_s": 0.5e-6,
    "tokens_per_s_per_user": 12_345.6,
    "users": 12_345,
    "tokens_per_s": 148_451.0,
    "tokens_per_s_exact": False,
    "prefill_tokens_per_s": 123_456.0,
    "mesh_hops_per_token": 33.8e9,
    "wafer_link_bytes_per_token": 474_123_456.0,
    "host_bytes_per_token": 139e9,
    "crossing_fraction": 0.7654,
    "sram_fullest_pe_fraction": 1.0,
    "power_w": 2_944_000.0,
    "joules_per_token": 86.4321,
    "usd_per_million_tokens": 12_345.678,
    "limit": "hops: most of it; \x1b[31mred\x1b[0m",
}
REPORT: dict[str, Any] = {
    "inputs": {"model": "big", "wafers": [4, 8], "links": [{"bytes_per_s": 8e9, "latency_s": 2e-5}]},
    "model": {"name": "big", "dtype": "bfloat16"},
    "wafer": {"name": "wse3", "rows": 1170, "cols": 755},
    "rows": [ROW] * 110,
    "verdict": ["Streaming <loses>."],
}


def test_wide_numbers_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    print_comparison(REPORT, stream)
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "\x1b" not in text
    told = "110 auto: pipeline    128  150 0.5 12,346 12,345 ≤ 148,451 123,456 12,346"
    assert told in [line.strip() for line in text.splitlines()]
    assert "links 8 GB/s 20 µs" in text
    assert "Streaming <loses>." in text


def test_equal_sentences_are_told_once_behind_the_numbers_of_their_rows() -> None:
    rows = [{"limit": limit} for limit in ("a", "a", "b", "a", "a", "a", "b")]
    assert limits(rows) == [("1-2, 4-6", "a"), ("3, 7", "b")]


def test_a_table_of_text_has_a_line_a_row() -> None:
    row = {"mapping": 'a,"b"\nc', "wafers": 2, "tpot_s": 0.1, "unknown": 1}
    assert as_csv([row, {"wafers": 3}], COLUMNS) == 'mapping,wafers,tpot_s\n"a,""b""\\nc",2,0.1\n,3,\n'
