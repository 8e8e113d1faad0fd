"""Binding: phases that make the same calls are bound once."""

from __future__ import annotations

from tiny_model import tiny_spec
from tiny_run import tiny_session

from wse.compiler.options import THIN_GEMM


def test_chunks_that_make_the_same_calls_are_bound_once() -> None:
    """All of a token go through the same steps; the first begins the run, and from the sixth on a row has two slots."""
    run = tiny_session(tiny_spec(), (5, 5), THIN_GEMM, range(1, 8), 2, chunk=1)
    bind, slots_of = run.engine._binder.bind, run.program.cache_slots
    chunks = run.program.prefill
    assert len({phase.steps for phase in chunks}) == 2, "the last gives logits"
    bound = [bind(phase, slots_of(phase.cached + phase.tokens)) for phase in chunks]
    assert bound[1] is bound[2] is bound[4]
    assert bound[1] is not bound[0]
    assert bound[4] is not bound[5]
    assert bound[5] is not bound[6]
