"""Test that layers of one kind share steps, in the same Program as if each was lowered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiny_model import latent_spec, tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.passes import lowering as schedule
from wse.compiler.passes.lifetimes import live_steps
from wse.compiler.pipeline import compile_choice
from wse.models.spec import Layer, ModelSpec
from wse.program.program import Program

MACHINE = wafer(6, 6, 1 << 20)
STEPS = 20

spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, STEPS - 1), st.integers(0, STEPS - 1)), max_size=6).map(
    lambda found: tuple((phase, min(ends), max(ends)) for phase, *ends in found)
)


def mixed_layers() -> ModelSpec:
    """Return a model whose layers alternate between two kinds."""
    spec = tiny_spec(layers=8, tied=False)
    return replace(spec, layers=(Layer(), Layer(window=4)) * 4)


def compiled(spec: ModelSpec, prefill: str, **options: Any) -> Program:
    given_options = Options(
        mapping="pipeline", wafers=2, accumulate="float32", context=30, **{"dtype": "float16", **options}
    )
    choice = Choice(
        bands=1, per_band=1 if prefill == "mesh-gemm" else 2, prefill=prefill, prefill_chunk=6, head_chunk=5
    )
    return compile_choice(spec, MACHINE, SOFTWARE, given_options, choice)


@pytest.mark.parametrize(
    ("spec", "prefill", "options"),
    [
        (tiny_spec(layers=7), "mesh-gemm", {"prompt_tokens": (9,)}),
        (mixed_layers(), "thin-gemm", {"prompt_tokens": (9, 4)}),
        (latent_spec(layers=5), "thin-gemm", {"prompt_tokens": (12,)}),
        (
            mixture_spec(MIXTURES["shared"], layers=5),
            "thin-gemm",
            {"prompt_tokens": (7,), "dtype": "int4", "activations": "float16"},
        ),
    ],
)
def test_shared_steps_are_as_lowered(
    spec: ModelSpec, prefill: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = compiled(spec, prefill, **options)
    lower, lowered = schedule._layer, []

    def alone(c: Any, ops: Any, known: Any) -> None:
        lowered.append(ops)
        lower(c, ops, {})

    monkeypatch.setattr(schedule, "_layer", alone)
    assert compiled(spec, prefill, **options).digest() == shared.digest()
    assert len(lowered) >= 2 * spec.layer_count


@given(a=spans, b=spans)
def test_moments_meet_where_spans_overlap(a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
    begins = {0: 0, 1: STEPS}
    overlap = any(p == q and first <= end and start <= last for p, first, last in a for q, start, end in b)
    assert bool(live_steps(a, begins) & live_steps(b, begins)) is overlap
