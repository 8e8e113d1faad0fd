"""Tests of the lowering of graphs to steps, and of layers of one kind that share a block."""

from dataclasses import replace
from typing import Any

import pytest
from compiler_states import CHOICE, before, begin
from hypothesis import given
from hypothesis import strategies as st
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiny_model import latent_spec, tiny_spec

from wse.compiler.check import check
from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, OPTIMIZED, Options
from wse.compiler.passes import lowering as schedule
from wse.compiler.passes.lifetimes import live_steps
from wse.compiler.passes.lowering import lower_ops
from wse.compiler.pipeline import compile_choice
from wse.compiler.state import State
from wse.compiler.symbolic import SymPhase
from wse.models.spec import Layer, ModelSpec
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse.program.steps import StepKind


def lowered(state: State) -> State:
    """Run the passes up to the lowering of ops, check the result, and return it."""
    result = lower_ops(before("lower_ops", state))
    check(result, pass_name="lower_ops")
    return result


def kernels_of(phase: SymPhase) -> set[str]:
    """Return the names of the kernels that a phase runs."""
    steps = [step for run in phase.steps.runs for step in run.block.steps]
    return {KERNELS[step.code].name for step in steps if step.kind == StepKind.COMPUTE}


def test_layers_of_one_kind_share_one_block() -> None:
    decode = lowered(begin((3, 4), tiny_spec(layers=5))).phases[-1]
    layers = [
        run.block for run in decode.steps.runs if len([r for r in decode.steps.runs if r.block is run.block]) == 5
    ]
    assert len({id(block) for block in layers}) == 1
    assert len(layers) == 5


@pytest.mark.parametrize(("tokens", "schedule"), [(2, OPTIMIZED), (15, OPTIMIZED), (2, BASELINE)])
def test_chunks_of_few_tokens_use_gemv_unless_the_schedule_is_baseline(tokens: int, schedule: str) -> None:
    """Chunks of few tokens have at most as many tokens as a tile has outputs; no tile has 15 outputs."""
    choice = replace(CHOICE, prefill_chunk=tokens)
    first, *_, token = lowered(begin((3, 8), choice=choice, schedule=schedule, prompt_tokens=(30,))).phases
    kernels = kernels_of(first)
    assert ("matmul" in kernels) == (tokens == 15 or schedule == BASELINE)
    assert ("gemv" in kernels) == (tokens == 2 and schedule == OPTIMIZED)
    assert "matmul" not in kernels_of(token)


MACHINE = wafer(6, 6, 1 << 20)
STEPS = 20
spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, STEPS - 1), st.integers(0, STEPS - 1)), max_size=6).map(
    lambda triples: tuple((phase, min(ends), max(ends)) for phase, *ends in triples)
)


def mixed_layers() -> ModelSpec:
    """Return a model whose layers alternate between two kinds."""
    spec = tiny_spec(layers=8, tied=False)
    return replace(spec, layers=(Layer(), Layer(window=4)) * 4)


def compiled(spec: ModelSpec, prefill: str, **options: Any) -> Program:
    """Return a Program of a pipeline on two wafers."""
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
def test_shared_steps_equal_steps_that_are_lowered_separately(
    spec: ModelSpec, prefill: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = compiled(spec, prefill, **options)
    lower, lowered = schedule._layer, []

    def lower_separately(c: Any, ops: Any, known: Any) -> None:
        lowered.append(ops)
        lower(c, ops, {})

    monkeypatch.setattr(schedule, "_layer", lower_separately)
    assert compiled(spec, prefill, **options).digest() == shared.digest()
    assert len(lowered) >= 2 * spec.layer_count


@given(a=spans, b=spans)
def test_live_steps_intersect_if_spans_overlap(a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
    steps_before_phases = {0: 0, 1: STEPS}
    overlap = any(p == q and first <= end and start <= last for p, first, last in a for q, start, end in b)
    assert bool(live_steps(a, steps_before_phases) & live_steps(b, steps_before_phases)) is overlap
