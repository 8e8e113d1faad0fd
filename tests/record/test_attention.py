"""The columns of attention in a trace, in what ``wse inspect`` finds there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.helpers import write_model
from wse.compiler.pipeline import compile_choice
from wse.studies.compile.choose import compile_fastest
from wse.studies.options.option import make_request
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.request import inspect_trace
from wse_traces import problems


@pytest.mark.parametrize(("columns", "expected"), [(3, [2, 4]), (0, [0, 6])])
def test_trace_tells_the_columns_of_attention(columns: int, expected: list[int], tmp_path: Path) -> None:
    model, path = str(write_model(tmp_path)), tmp_path / "run.h5"
    prepared = prepare(make_request(RunRequest, model=model, prompt_ids=(1, 2, 3), wafers=2, mesh="3x7", new_tokens=2))
    found = compile_fastest(prepared)
    choice = replace(found.choice, attention_cols=columns)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, found.options, choice)
    execute(prepared, program, trace=path)
    assert problems(path) == []
    stages = inspect_trace(InspectRequest(trace=path)).to_dict()["system"]["stages"]
    assert [list(stage["attention"]) for stage in stages] == [expected] * 2
