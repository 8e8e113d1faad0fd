"""The clock's sums against adding up every cost on its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)


def test_totals_are_the_sums_over_all_runs() -> None:
    machine = wafer(6, 5, 1 << 20)
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, OPTIONS, CHOICE)
    clock, fabric = RunTotals(Fabric(program, machine, SOFTWARE)), Fabric(program, machine, SOFTWARE)
    assert not clock.links_on(0).any()
    prompt = [fabric.prefill_cost(i) for i in range(3)]
    tokens = [fabric.decode_cost(length) for length in range(9, 40)]
    for index in range(3):
        clock.prefill_chunk(index)
    for _ in tokens:
        clock.decode_token()
    assert clock.cycles == sum(cost.cycles for cost in prompt + tokens)
    for totals, costs in ((clock.prefill, prompt), (clock.decode, tokens)):
        assert totals.runs == len(costs)
        links = fabric.routes.words(totals.rectangles())
        assert totals.hops == sum(int(cost.traffic.hops.sum()) for cost in costs) == links.sum()
        assert np.array_equal(links, sum(cost.links for cost in costs))
        assert np.allclose(totals.by_cause, sum(cost.by_cause.sum(axis=0) for cost in costs))
    for wafer_number, words in enumerate(sum(cost.links for cost in prompt + tokens)):
        assert np.array_equal(clock.links_on(wafer_number), words)


def test_all_chunks_at_once_are_those_one_after_another() -> None:
    """Of two users, some of whose chunks are alike and some not."""
    machine, options = wafer(6, 5, 1 << 20), replace(OPTIONS, prompt_tokens=(11, 13))
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, options, replace(CHOICE, prefill_chunk=2))
    one, all_ = (RunTotals(Fabric(program, machine, SOFTWARE)) for _ in range(2))
    costs = [one.prefill_chunk(index) for index in range(len(program.prefill))]
    found = all_.prefill_all()
    assert [cost.cycles for cost in found] == [cost.cycles for cost in costs]
    assert len({id(cost) for cost in found}) < len(found) == 13
    assert all_.lengths == one.lengths == [11, 13]
    a, b = all_.prefill, one.prefill
    sums = ("runs", "cycles", "layer_cycles", "words", "hops", "crossed")
    assert [getattr(a, name) for name in sums] == [getattr(b, name) for name in sums]
    assert np.array_equal(a.by_cause, b.by_cause)
    assert np.array_equal(all_.links_on(0), one.links_on(0))
    assert a.busiest_links() == b.busiest_links()
