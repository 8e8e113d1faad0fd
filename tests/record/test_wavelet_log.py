"""A run with its last pass wavelet by wavelet: the log in the trace has the words that the fabric model counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from placements import ONE_REGION

from tests.models.helpers import write_model
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.program.program import Program
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import execute
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import RunRequest
from wse_traces import open_trace, problems
from wse_traces.reader.replay import wavelet_cycles, wavelet_passes, wavelet_words

PROMPT = (1, 2, 3)


def compile_(folder: Path, **wanted: object) -> tuple[PreparedRun, Program]:
    placed = ONE_REGION | {"wafers": 2, "mesh": "3x3"} | wanted
    prepared = prepare(make_request(RunRequest, model=str(write_model(folder)), prompt_ids=PROMPT, **placed))
    return prepared, compile_program(prepared)


@pytest.mark.slow
@pytest.mark.parametrize("new_tokens", [1, 5])
def test_log_replays_to_the_words_of_the_last_pass(tmp_path: Path, new_tokens: int) -> None:
    prepared, program = compile_(tmp_path, new_tokens=new_tokens)
    path = tmp_path / "run.h5"
    report = execute(prepared, program, trace=path, wavelets=True).to_dict()
    assert problems(path) == []
    fabric = Fabric(program, prepared.wafer, prepared.software)
    cost: PhaseCost = fabric.decode_cost(len(PROMPT) + new_tokens - 2)
    if new_tokens == 1:
        cost = fabric.prefill_cost(len(program.prefill) - 1)
    with open_trace(path) as trace:
        (last,) = wavelet_passes(trace)
        assert last == trace.rows("pass") - 1
        words = wavelet_words(trace, pass_index=last)[:, :4]
        np.testing.assert_array_equal(words, cost.links)
        stepped = [(cycle, len(rows["cycle"])) for cycle, rows in wavelet_cycles(trace, pass_index=last)]
        steps = trace.column("wavelets/step")
    told = report["wavelets"]
    assert told["wavelet_hops"] == words.sum()
    assert told["moves"] == sum(count for _, count in stepped) == len(steps)
    assert stepped[-1][0] < told["cycles"]
    assert steps.max() < len(cost.traffic.hops)
