"""Decode steps that the compiler estimates with the profile epcc, which is fitted on microbenchmarks alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import wse

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "prompt_len", "new_tokens", "measured_cycles"),
    [("qwen3-1.7b", 256, 64, 459_335), ("qwen3-4b", 4096, 4096, 785_826)],
)
def test_decode_steps_of_qwen3_are_near_the_measured_ones(
    model: str, prompt_len: int, new_tokens: int, measured_cycles: int
) -> None:
    """Measured at EPCC on a WSE-3 (2026 working notes, rows D17-01 and CTX1-01)."""
    decode = wse.estimate(
        model, software="epcc", schedule="baseline", prompt_len=prompt_len, new_tokens=new_tokens
    ).decode
    assert decode.cycles_per_token == pytest.approx(measured_cycles, rel=0.08)
    assert f"| {measured_cycles:,} | {decode.cycles_per_token:,.0f} |" in PAGE.read_text(encoding="utf-8")
