"""The buffers of a PE over a token are those that the Program's steps need, in the cycles of these steps."""

from __future__ import annotations

import h5py
import pytest

from tests.inspect.runs import TracedRun, traced_run
from wse.tracing.export.sram_png import sram_png_of
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.places.sram_lives import read_sram_lives
from wse_traces import open_trace
from wse_traces.schema import KINDS


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> TracedRun:
    folder = tmp_path_factory.mktemp("traced")
    return traced_run(folder, prompt_ids=(1, 2, 3), wafers=2, mesh="3x3", new_tokens=3)


@pytest.mark.parametrize("wafer", [0, 1])
def test_bands_are_the_buffers_of_the_program(traced: TracedRun, wafer: int) -> None:
    program, _, path = traced
    with open_trace(path) as trace:
        lives = read_sram_lives(trace, wafer, 1, 2)
    with h5py.File(path) as file:
        schedule = file["passes/schedule"][-1]
        first, count = (file[f"schedules/{name}"][schedule] for name in ("first_step", "steps"))
        start = file["steps/start_cycle"][first : first + count].tolist()
        crosses = (file["steps/kind"][first : first + count] == KINDS.index("cross")).tolist()
        end = [at + cycles for at, cycles in zip(start, file["steps/cycles"][first : first + count], strict=True)]
    assert lives.phase == "decode"
    wanted = {}
    for buffer in program.buffers:
        if program.stages[buffer.stage].wafer == wafer:
            spans = [(start[a], int(end[b])) for phase, a, b in buffer.live if phase == program.decode_index]
            if spans or not buffer.live:
                wanted[buffer.name, buffer.address] = (buffer.use, buffer.bytes, sorted(spans), not buffer.live)
    assert len(wanted) > 20
    assert {
        (band.name, band.address): (band.use, band.bytes, list(band.needed), band.always) for band in lives.bands
    } == wanted
    own = [
        step for step, stage in enumerate(program.decode.steps.stage.tolist()) if program.stages[stage].wafer == wafer
    ]
    assert lives.first_cycle == min(start[step] for step in own)
    assert lives.last_cycle == max(end[step] for step in own if not crosses[step])


def test_picture_is_drawn(traced: TracedRun) -> None:
    image = sram_png_of(InspectRequest(trace=traced.path, pe="1:1,2", sram_png="x.png"))
    assert image.startswith(b"\x89PNG\r\n")
    assert image != sram_png_of(InspectRequest(trace=traced.path, pe="0:1,2", sram_png="x.png"))
