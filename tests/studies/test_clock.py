"""The clock's sums against adding up every cost by itself."""

from __future__ import annotations

import numpy as np
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.options import Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.fabric.phase_cost import Fabric
from wse.studies.clock import Clock

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)


def test_totals_are_the_sums_over_all_runs() -> None:
    machine = wafer(6, 5, 1 << 20)
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, OPTIONS, CHOICE)
    clock, fabric = Clock(Fabric(program, machine, SOFTWARE)), Fabric(program, machine, SOFTWARE)
    assert clock.decode.links is None
    prompt = [fabric.prefill_cost(i) for i in range(3)]
    tokens = [fabric.decode_cost(length) for length in range(9, 40)]
    for index in range(3):
        clock.prefill_chunk(index)
    for _ in tokens:
        clock.decoded()
    assert clock.cycles == sum(cost.cycles for cost in prompt + tokens)
    for totals, costs in ((clock.prefill, prompt), (clock.decode, tokens)):
        assert totals.runs == len(costs)
        assert totals.hops == sum(int(cost.hops.sum()) for cost in costs) == totals.links.sum()
        assert np.array_equal(totals.links, sum(cost.links for cost in costs))
        assert np.allclose(totals.by_cause, sum(cost.by_cause.sum(axis=0) for cost in costs))
