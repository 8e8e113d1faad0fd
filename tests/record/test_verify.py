"""Passes over several tokens of one user in traces: a phase of their own, with all that they cost and send."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.prepare import prepare, weights_of
from wse.studies.run.request import RunRequest
from wse.tracing.expert_load import ExpertLoad
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.tree import read_tree
from wse.tracing.record.run import RunRecorder
from wse_traces import open_trace, problems
from wse_traces.schema import PHASES

VERIFY = PHASES.index("verify")
TOKENS, KEPT = 3, (3, 1, 2)


def test_run_with_passes_reads_back_as_what_the_engine_moved(tmp_path: Path) -> None:
    prepared = prepare(make_request(RunRequest, prompt="Once upon a time", new_tokens=20))
    prepared = replace(prepared, options=replace(prepared.options, verify_tokens=TOKENS))
    program = compile_program(prepared)
    engine = Engine(program, prepared.spec, weights_of(prepared.request, prepared.loaded))
    clock, path = RunTotals(Fabric(program, prepared.wafer, prepared.software)), tmp_path / "run.h5"
    (prompt,) = prepared.prompts
    with RunRecorder(path, prepared, program, program.digest(), prepared.request.sampling, None) as recorder:
        for index in engine.prefill(prompt):
            before, cost = clock.cycles, clock.prefill_chunk(index)
            number = recorder.add_pass(index, (engine.cache_slots(0), ()), cost, {}, before, 0.0)
        (token,), verify = engine.tokens, program.phases.index(program.verify[0])
        recorder.add_token(0, token, b"", number, len(prompt), clock.cycles, 0.0)
        for kept in KEPT:
            ids, before = engine.verify([token] * TOKENS), clock.cycles
            use, cost = clock.fabric.verify_use(clock.lengths[0]), clock.verify_pass(kept)
            number, cycles = recorder.add_pass(verify, use, cost, {}, before, 0.0), cost.cycles
            engine.keep(kept)
            for position, token in enumerate(ids[:kept], clock.lengths[0] - kept + 1):
                recorder.add_token(0, token, b"", number, position, cycles, 0.0)
                cycles = 0.0  # all of a pass come at once
        recorder.finish(clock, ExpertLoad(), {})
    assert clock.lengths == [len(prompt) + sum(KEPT)] == [engine.caches.length(0)]
    assert problems(path) == []
    with open_trace(path) as trace:
        passes = trace.column("schedules/phase")[trace.column("passes/schedule")]
        assert passes.tolist() == [*(0 for _ in program.prefill), *(VERIFY for _ in KEPT)]
        np.testing.assert_array_equal(trace.column("links/words"), engine.link_words())
        sums = StepSums(trace)
        totals = sums.phases()["verify"]
        assert totals.passes == len(KEPT)
        assert totals.cycles == pytest.approx(clock.verify.cycles)
        assert sum(layer.verify or 0.0 for layer in read_tree(sums)) == pytest.approx(totals.cycles_per_pass)


@pytest.mark.slow
def test_estimates_pass_is_the_last_one_of_its_trace(tmp_path: Path) -> None:
    request = make_request(
        EstimateRequest, model="story", mesh="24x24", prompt_len=16, new_tokens=8, trace=tmp_path / "e.h5"
    )
    result = estimate(replace_options(request, verify_tokens=TOKENS))
    assert problems(tmp_path / "e.h5") == []
    with open_trace(tmp_path / "e.h5") as trace:
        schedules = trace.column("passes/schedule")
        phases = trace.column("schedules/phase")[schedules].tolist()
        assert (phases.count(VERIFY), phases[-1]) == (1, VERIFY)
        assert trace.column("schedules/cycles")[schedules[-1]] == int(result.verify.cycles)
        assert len(phases) - 1 not in trace.column("tokens/pass")
