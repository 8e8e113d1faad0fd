"""What a comparison prints, with the widest numbers that a large machine gives."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from wse.studies.compare.result import CompareResult
from wse.studies.compare.summary import print_comparison
from wse.studies.compare.tables import reasons
from wse.studies.results.placement import ModelResult
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

ROW = ComparisonRow(
    mapping="auto",
    chosen="pipeline",
    wafers=128,
    link_bytes_per_s=150e9,
    link_latency_s=0.5e-6,
    tokens_per_s_per_user=12_345.6,
    users=12_345,
    tokens_per_s=148_451.0,
    tokens_per_s_exact=False,
    prefill_tokens_per_s=123_456.0,
    ttft_s=0.123456,
    mesh_hops_per_token=33.8e9,
    wafer_link_bytes_per_token=474_123_456.0,
    host_bytes_per_token=139e9,
    crossing_fraction=0.7654,
    sram_fullest_pe_fraction=1.0,
    power_w=2_944_000.0,
    joules_per_token=86.4321,
    usd_per_million_tokens=12_345.678,
    limited_by="hops",
    cycles_by={"hops": 3.0, "launch": 1.0},
    limit="hops: most of it; \x1b[31mred\x1b[0m",
    best=("one_user",),
)
LESS = replace(ROW, mapping="region", chosen=None, tokens_per_s_per_user=1.5, best=("all_users",))
REASON = ComparisonRow(mapping="tensor", wafers=7, reason="--wafers 7: too many \x1b[31m")
RESULT = CompareResult(
    inputs={"model": "big", "prompt_len": 1024, "new_tokens": 1024, "batch": 1, "wafers": [4, 8]}
    | {"links": [{"bytes_per_s": 8e9, "latency_s": 2e-5}], "links_given": True},
    model=ModelResult(
        name="big", parameters=1, dtype="bfloat16", activations="bfloat16", accumulate="float32", bytes=2
    ),
    wafer={"name": "wse3", "rows": 1170, "cols": 755},
    economics={},
    rows=(ROW, LESS, *[replace(ROW, best=None)] * 108, REASON),
    verdict=("Streaming <loses>.",),
)


def printed(
    monkeypatch: pytest.MonkeyPatch, width: int, *, result: CompareResult = RESULT, detail: bool = False
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    print_comparison(result, stream, detail=detail)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    return [line.strip() for line in lines]


def test_verdict_comes_first_and_what_cannot_be_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 80)
    assert lines[1:3] == ["big as bfloat16 on wse3, 1170x755 PEs; 1,024 + 1,024 tokens", "Streaming <loses>."]
    assert "tensor on 7  --wafers 7: too many \\x1b[31m" in lines
    assert "108 more rows with --detail." in lines
    assert len(lines) <= 20


def test_equal_reasons_are_told_once() -> None:
    rows = [ComparisonRow(mapping=name, wafers=wafers, reason="r") for name in "ab" for wafers in (1, 2)]
    assert reasons([*rows, ROW]) == [("a on 1, a on 2, b on 1, b on 2", "r")]
