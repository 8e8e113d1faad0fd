"""Helpers that write traces and inspect or export them, for the tests of inspect, export and page."""

from pathlib import Path
from typing import Any, NamedTuple

from tests.models.helpers import write_model
from wse.program.program import Program
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.export.files import write_export
from wse.tracing.query.request import inspect_trace
from wse.tracing.requests import ExportRequest, InspectRequest

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
STORY, TWO_WAFERS = GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5"


class TracedRun(NamedTuple):
    """A run of the tiny model: its Program, its report and its trace."""

    program: Program
    report: dict[str, Any]
    path: Path


def traced_run(folder: Path, **options: Any) -> TracedRun:
    """Run a model and write its trace to ``folder``.

    Args:
        folder: Folder of the trace and of the tiny model.
        options: Options of the run; the default is the tiny model on a mapping that is not searched for.
    """
    defaults = {"model": str(write_model(folder)), "schedule": "baseline"}
    prepared = prepare(make_request(RunRequest, **defaults | options))
    program, path = compile_program(prepared), folder / "run.h5"
    return TracedRun(program, execute(prepared, program, RunFiles(trace=path)).to_dict(), path)


def inspect(trace: Path, **options: Any) -> dict[str, Any]:
    """Return what ``wse inspect --json`` prints for a trace."""
    return inspect_trace(InspectRequest(trace=trace, **options)).to_dict()


def export(trace: Path, to: str, out: Path, **options: Any) -> Any:
    """Write a trace in another format and return the facts of the export."""
    return write_export(ExportRequest(trace=trace, to=to, output=str(out), **options), lambda *_: None)
