"""A run's passes are written together: the trace is the one that writing each alone gives, up to when it stops."""

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
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.print.views import print_view
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.request import inspect_trace
from wse.tracing.record import run as recording
from wse_traces import open_trace, problems
from wse_traces.schema import TABLES

REQUESTS: dict[str, dict[str, Any]] = {
    "three users": {"prompt": ("Once", "Once upon a time, there", "Tim")},
    "two wafers, recorded": {"prompt": "Once", "wafers": 2, "record": "activations=head"},
}
OF_THE_EMULATOR = {"wall_s", "summary"}


@pytest.fixture(params=slow_but(REQUESTS, "two wafers, recorded"))
def traced(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path]:
    """Runs a request and gives its trace."""
    asked = dict(REQUESTS[request.param])
    record = asked.pop("record", "")
    prepared = prepare(make_request(RunRequest, new_tokens=40, **asked))
    program = compile_program(prepared)
    ops = (len(program.op_names) - 1,) if record else ()

    def trace(name: str) -> Path:
        execute(prepared, program, trace=tmp_path / name, record=ops)
        return tmp_path / name

    return trace


def test_passes_together_are_those_written_alone(
    traced: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = traced("together.h5")
    monkeypatch.setattr(recording, "MAX_PASSES", 1)
    alone = traced("alone.h5")
    assert problems(together) == problems(alone) == []
    with open_trace(together) as a, open_trace(alone) as b:
        assert a.rows("shift") > 0
        assert a.rows("schedule") < a.rows("pass") / 3
        for table in TABLES:
            one, other = a.table(table), b.table(table)
            for name in one.keys() - OF_THE_EMULATOR:
                np.testing.assert_array_equal(one[name], other[name], err_msg=f"{table}/{name}")


def test_placement_can_be_read_before_anything_has_run_and_an_error_is_told(tmp_path: Path) -> None:
    """A run that is killed in its first second, or that ends in an error."""
    prepared = prepare(make_request(RunRequest, prompt="Once", new_tokens=4, schedule="baseline", mapping="region"))
    program = compile_program(prepared)
    seen: list[tuple[int, int]] = []

    def fail(program: object, *details: object, **more: object) -> Backend:
        with open_trace(tmp_path / "run.h5.partial") as trace:
            seen.append((trace.rows("stage"), trace.rows("op")))
        message = "layer 2: the host is on fire"
        raise BadInput(message)

    with pytest.raises(BadInput):
        execute(prepared, program, trace=tmp_path / "run.h5", make_backend=fail)
    assert seen == [(1, len(program.op_names))]
    with open_trace(tmp_path / "run.h5.partial") as trace:
        assert trace.ending == "BadInput: layer 2: the host is on fire"
    text = io.StringIO()
    print_view(inspect_trace(InspectRequest(trace=tmp_path / "run.h5.partial")), text, top=None)
    assert "its run ended with BadInput: layer 2: the host is on fire" in " ".join(text.getvalue().split())


def test_passes_whose_writing_is_interrupted_are_left_out_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(make_request(RunRequest, prompt="Once", new_tokens=40, schedule="baseline"))
    monkeypatch.setattr(recording, "MAX_PASSES", 8)
    monkeypatch.setattr(recording, "MAX_S", 60.0)
    wrote = recording.RunRecorder.write_shifts

    def stop(recorder: recording.RunRecorder, phase: int, first_pass: int, *sent: Any) -> None:
        if first_pass > 16:
            raise KeyboardInterrupt
        wrote(recorder, phase, first_pass, *sent)

    monkeypatch.setattr(recording.RunRecorder, "write_shifts", stop)
    with pytest.raises(KeyboardInterrupt):
        execute(prepared, compile_program(prepared), trace=tmp_path / "run.h5")
    monkeypatch.undo()
    execute(prepared, compile_program(prepared), trace=tmp_path / "whole.h5")
    partial = tmp_path / "run.h5.partial"
    assert problems(partial) == []
    with open_trace(partial) as trace, open_trace(tmp_path / "whole.h5") as whole:
        last, steps = trace.rows("pass"), whole.steps()
        assert last >= 16
        for name in ("words", "hops"):
            np.testing.assert_array_equal(trace.steps()[name], steps[name][steps["pass"] < last])
