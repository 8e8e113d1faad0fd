"""Tests of the recording of a run: passes written in groups, errors, and interruptions."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import slow_but

from wse.backends.execute.backend import Backend
from wse.errors import BadInput
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.print.views import print_view
from wse.tracing.query.request import inspect_trace
from wse.tracing.record import run as recording
from wse.tracing.requests import InspectRequest
from wse_traces import open_trace, problems
from wse_traces.schema import TABLES

PLACED = {"mapping": "region", "schedule": "baseline"}
REQUESTS: dict[str, dict[str, Any]] = {
    "three users": {"prompt": ("Once", "Once upon a time, there", "Tim"), **PLACED},
    "two wafers, recorded": {"prompt": "Once", "wafers": 2, "record": "activations=head", **PLACED},
}
WALL_CLOCK_COLUMNS = {"wall_s", "summary"}


@pytest.fixture(params=slow_but(REQUESTS, "two wafers, recorded"))
def write_trace(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that executes a request and returns the path of its trace; its argument is the file name."""
    options = dict(REQUESTS[request.param])
    record = options.pop("record", "")
    prepared = prepare(make_request(RunRequest, new_tokens=24, **options))
    program = compile_program(prepared)
    ops = (len(program.op_names) - 1,) if record else ()

    def trace(name: str) -> Path:
        execute(prepared, program, RunFiles(trace=tmp_path / name, record=ops))
        return tmp_path / name

    return trace


def test_passes_written_in_groups_equal_passes_written_singly(
    write_trace: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_groups = write_trace("in_groups.h5")
    monkeypatch.setattr(recording, "MAX_PASSES", 1)
    singly = write_trace("singly.h5")
    assert problems(in_groups) == problems(singly) == []
    with open_trace(in_groups) as a, open_trace(singly) as b:
        assert a.rows("shift") > 0
        assert a.rows("schedule") < a.rows("pass") / 3
        for table in TABLES:
            group_table, single_table = a.table(table), b.table(table)
            for name in group_table.keys() - WALL_CLOCK_COLUMNS:
                np.testing.assert_array_equal(group_table[name], single_table[name], err_msg=f"{table}/{name}")


def test_trace_has_the_placement_before_the_run_and_the_error_after_it(tmp_path: Path) -> None:
    prepared = prepare(make_request(RunRequest, prompt="Once", new_tokens=4, **PLACED))
    program = compile_program(prepared)
    seen: list[tuple[int, int]] = []

    def fail(program: object, *details: object, **more: object) -> Backend:
        with open_trace(tmp_path / "run.h5.partial") as trace:
            seen.append((trace.rows("stage"), trace.rows("op")))
        raise BadInput("layer 2: the host is on fire")

    with pytest.raises(BadInput):
        execute(prepared, program, RunFiles(trace=tmp_path / "run.h5"), make_backend=fail)
    assert seen == [(1, len(program.op_names))]
    with open_trace(tmp_path / "run.h5.partial") as trace:
        assert trace.ending == "BadInput: layer 2: the host is on fire"
    text = io.StringIO()
    print_view(inspect_trace(InspectRequest(trace=tmp_path / "run.h5.partial")), text, top=None)
    assert "its run ended with BadInput: layer 2: the host is on fire" in " ".join(text.getvalue().split())


def test_group_of_passes_is_left_out_if_its_writing_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(make_request(RunRequest, prompt="Once", new_tokens=24, **PLACED))
    monkeypatch.setattr(recording, "MAX_PASSES", 8)
    monkeypatch.setattr(recording, "MAX_S", 60.0)
    original_write_shifts = recording.RunRecorder.write_shifts

    def stop(recorder: recording.RunRecorder, phase: int, first_pass: int, *shifts: Any) -> None:
        if first_pass > 16:
            raise KeyboardInterrupt
        original_write_shifts(recorder, phase, first_pass, *shifts)

    monkeypatch.setattr(recording.RunRecorder, "write_shifts", stop)
    with pytest.raises(KeyboardInterrupt):
        execute(prepared, compile_program(prepared), RunFiles(trace=tmp_path / "run.h5"))
    monkeypatch.undo()
    execute(prepared, compile_program(prepared), RunFiles(trace=tmp_path / "whole.h5"))
    partial = tmp_path / "run.h5.partial"
    assert problems(partial) == []
    with open_trace(partial) as trace, open_trace(tmp_path / "whole.h5") as whole:
        last, steps = trace.rows("pass"), whole.steps()
        assert last >= 16
        for name in ("words", "hops"):
            np.testing.assert_array_equal(trace.steps()[name], steps[name][steps["pass"] < last])
