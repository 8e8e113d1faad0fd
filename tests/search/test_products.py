"""Tests of the prefill matrix products of a layout: which ones are timed, and which one is preferred."""

from types import SimpleNamespace
from typing import Any

import pytest

from wse.compiler.options import MESH_GEMM, THIN_GEMM
from wse.compiler.search.trials import try_layout
from wse.compiler.search.trials.trial import PromptTime, Trial
from wse_mappings.regions.layout import Layout

LAYOUT = Layout("bands", 1, 1)


def trial(product: str, prompt_cycles: float | None) -> Trial:
    """Return a trial of a product, which does not fit if ``prompt_cycles`` is None."""
    prompts = None if prompt_cycles is None else PromptTime(prompt_cycles, 1)
    fits = prompt_cycles is not None
    return Trial(layout=LAYOUT, prefill=product, needed_bytes=1, fits=fits, generated_cycles=1.0, prompts=prompts)


def test_preferred_product_that_does_not_fit_is_not_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest layout uses the preferred product, but this layout has too little SRAM for it."""
    setup: Any = SimpleNamespace(products=lambda layout: (MESH_GEMM, THIN_GEMM))
    monkeypatch.setattr(try_layout, "try_layout", lambda setup, layout, product: trial(product, None))
    timed = [trial(THIN_GEMM, 5.0)]
    assert try_layout.fastest_product_first(setup, timed, MESH_GEMM) == timed
    monkeypatch.setattr(try_layout, "try_layout", lambda setup, layout, product: trial(product, 2.0))
    assert [one.prefill for one in try_layout.fastest_product_first(setup, timed, MESH_GEMM)] == [MESH_GEMM]
    assert [one.prefill for one in try_layout.fastest_product_first(setup, timed, None)] == [MESH_GEMM, THIN_GEMM]
