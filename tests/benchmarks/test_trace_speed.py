"""What traces cost; ``pytest tests/benchmarks/test_trace_speed.py`` prints it.

Goals: a trace of a 1,000-token run of the bundled model, and of a 240-token run of stories15m on 48x48 PEs, below 30 MB
each, and no more than 5 % of the run without it; that of a full-wafer estimate below 40 MB, and written in 2 s. Runs
with a trace and without take turns on one core. Seconds are those of the processor, so that what else the machine does
counts little. It still only adds, so that the quicker half of each side is compared, and the rest is reported too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from placements import ONE_REGION

from tests.benchmarks.conftest import BySize, Say
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse_traces import open_trace

STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories15m"
MODELS = {
    "story": (make_request(RunRequest, prompt="Once upon a time", new_tokens=1000, **ONE_REGION), None),
    "stories15m on 48x48": (
        make_request(RunRequest, model=str(STORIES), mesh="48x48", new_tokens=240, **ONE_REGION),
        STORIES,
    ),
}
RUN_MB, SLOWER = 30, 1.05
ESTIMATE_MB, ESTIMATE_S = 40, 2.0


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    """On one core, so that no run pays for a move to another."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("name", ["story", pytest.param("stories15m on 48x48", marks=pytest.mark.full_size)])
def test_a_trace_of_a_run(name: str, tmp_path: Path, by_size: BySize, say: Say) -> None:
    request, needed = MODELS[name]
    request = replace_options(request, new_tokens=by_size(small=60, full=request.inputs.new_tokens))
    if needed is not None and not needed.is_dir():
        pytest.skip(f"{needed} is missing")
    prepared = replace(prepare(request), end_ids=())  # the model may not end its text
    program = compile_program(prepared)
    path = tmp_path / "run.h5"
    execute(prepared, program, trace=path)  # kernels compile
    count = by_size(small=2, full=16)
    pairs = [
        (cpu_s(partial(execute, prepared, program)), cpu_s(partial(execute, prepared, program, trace=path)))
        for _ in range(count)
    ]
    ratios, size_mb = sorted(traced / plain for plain, traced in pairs), path.stat().st_size / 1e6
    plain_s, traced_s = (sum(sorted(times)[: count // 2]) / (count // 2) for times in zip(*pairs, strict=True))
    middle = ratios[count // 2]
    say(
        f"{name}, {request.inputs.new_tokens} tokens: {size_mb:.2f} MB (goal {RUN_MB}); quicker half {plain_s:.2f} s "
        f"without and {traced_s:.2f} s with, x{traced_s / plain_s:.3f} (goal {SLOWER}); pairs x{ratios[0]:.3f} to "
        f"x{ratios[-1]:.3f}, x{middle:.3f} in the middle"
    )
    with open_trace(path) as trace:
        assert int((trace.column("tokens/is_prompt") == 0).sum()) == request.inputs.new_tokens
    assert size_mb < RUN_MB


def cpu_s(call: Callable[[], object]) -> float:
    """Seconds of the processor that a call takes."""
    began = time.process_time()
    call()
    return time.process_time() - began


@pytest.mark.parametrize("wafer", [pytest.param("wse2", marks=pytest.mark.full_size), "wse3"])
@pytest.mark.parametrize("model", ["llama-3-8b", pytest.param("llama-3.1-70b", marks=pytest.mark.full_size)])
def test_a_trace_of_an_estimate(model: str, wafer: str, tmp_path: Path, by_size: BySize, say: Say) -> None:
    path = tmp_path / "estimate.h5"
    plain, traced = (make_request(EstimateRequest, model=model, wafer=wafer, trace=trace) for trace in (None, path))
    plain_s, traced_s = (
        min(cpu_s(partial(estimate, request)) for _ in range(by_size(small=1, full=3))) for request in (plain, traced)
    )
    with open_trace(path) as trace:
        wafers = trace.header.wafers
    size_mb, written_s = path.stat().st_size / 1e6, traced_s - plain_s
    least = f"{plain_s:.2f} s without, {written_s:.2f} s more with (goal {ESTIMATE_S} a wafer)"
    say(f"{model} on {wafers} {wafer}: {size_mb:.2f} MB (goal {ESTIMATE_MB}); {least}")
    assert size_mb < ESTIMATE_MB
