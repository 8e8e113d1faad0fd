"""Write the files of an export, either completely or not at all, after checking its options."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, cast

import numpy as np

from wse.errors import BadInput, UnknownName
from wse.reports.output_file import open_output, open_output_folder, output_path
from wse.reports.progress import OnProgress
from wse.reports.result import Doc, Report, Result
from wse.tracing.export.chosen_passes import select_passes
from wse.tracing.export.maps import check_maps, map_kinds, wafer_maps, write_pngs
from wse.tracing.export.perfetto import write_perfetto
from wse.tracing.export.router_events import router_events
from wse.tracing.export.simulator_log import write_simulator_log
from wse.tracing.export.tables import PLANES, check_parquet, check_tables, chosen_tables, write_tables
from wse.tracing.export.timeline import timeline
from wse.tracing.query.view import trace_at
from wse.tracing.requests import FOLDERS, SUFFIXES, ExportRequest, cycle_range, token_range
from wse_traces.reader.read import Trace

_TABLES: Final = ("csv", "parquet")
_LOG: Final = ("simulator-log",)
_FORMATS_OF: Final = {
    "tokens": ("perfetto",),
    "what": (*_TABLES, "png"),
    "planes": _TABLES,
    "wafer_index": _LOG,
    "cycles": _LOG,
}
"""Formats to which each option of an export applies."""


class ExportResult(Result):
    """Report of an export: the files written and what they contain.

    The fields ``trace``, ``to`` and ``out`` are always set. The other fields depend on the format:
    ``rows`` is set for tables and ``slices`` for timelines, for example.
    """

    trace: Annotated[str, Doc("path of the trace")]
    to: Annotated[str, Doc("format")]
    out: Annotated[str, Doc("path of the file or folder that was written")]
    incomplete: Annotated[bool | None, Doc("true if the run was not completed")] = None
    files: Annotated[tuple[str, ...] | None, Doc("names of the files in the folder, for formats with several")] = None
    rows: Annotated[int | None, Doc("total number of rows of all tables")] = None
    events: Annotated[int | None, Doc("number of router events in a wavelet log")] = None
    wavelets: Annotated[int | None, Doc("number of different wavelets in a wavelet log")] = None
    slices: Annotated[int | None, Doc("number of slices (events with a duration) in a timeline")] = None
    passes: Annotated[int | None, Doc("number of passes that a timeline shows")] = None
    left_out_passes: Annotated[int | None, Doc("number of passes that were omitted from a timeline")] = None
    tokens: Annotated[tuple[int, int] | None, Doc("first and last token that a timeline shows")] = None
    first_generated_token: Annotated[int | None, Doc("index of the first generated token of the run")] = None


def write_export(request: ExportRequest, on_progress: OnProgress) -> ExportResult:
    """Export a trace, and return a report of what was written.

    Args:
        request: The trace, the format, the output path and what to export.
        on_progress: Function called with the amount of work done, the total amount, and the name of
            the next part. The unit of work depends on the format.

    Raises:
        BadInput: An option is invalid or does not apply to the format, the output path cannot be
            written to or contains something else, or a library required by the format is not
            installed.
        BadTrace: The trace cannot be read, or lacks the requested data.
    """
    _check(request)
    _check_place(request)
    if request.to == "parquet":
        check_parquet()
    with trace_at(request.trace) as trace:
        write = _folder if request.to in FOLDERS else _file
        report = write(trace, request, on_progress)
        incomplete = None if trace.complete else True
    trace_name, out = str(request.trace), str(request.out)
    return ExportResult(trace=trace_name, to=request.to, out=out, incomplete=incomplete, **report)


def _check(request: ExportRequest) -> None:
    """Check the options of an export and their combinations.

    Raises:
        BadInput: An option does not apply to the format, or has an invalid value.
        UnknownName: There is no format, map or table with this name.
    """
    if request.to not in SUFFIXES:
        raise UnknownName("format", request.to, SUFFIXES, place="--to")
    for option, formats in _FORMATS_OF.items():
        value = getattr(request, option)
        if value is not None and value is not False and request.to not in formats:
            name, allowed = option.replace("_", "-"), ", ".join(formats)
            raise BadInput(f"--{name}: applies to --to {allowed}, not to {request.to}; leave it out")
    if request.planes and request.what is not None:
        raise BadInput(f"--planes: name the planes in --what instead: {', '.join(PLANES.values())}")
    check = check_maps if request.to == "png" else check_tables
    check(request.names)
    if request.output == "":
        kind = "folder" if request.to in FOLDERS else "file"
        raise BadInput(f"-o '': the path is empty; give the name of a {kind}")
    token_range(request.tokens)
    cycle_range(request.cycles)


def _check_place(request: ExportRequest) -> None:
    """Raise BadInput if the output path is unsuitable for the format of the export.

    Formats that consist of several files need a folder that is new, empty, or contains an earlier
    export.
    """
    out = request.out
    if request.to not in FOLDERS:
        output_path("-o", str(out), inputs=[request.trace])
        return
    if out.suffix == f".{request.to}":
        raise BadInput(f"-o {out}: {request.to} writes several files; give the name of a folder for them")
    if not out.parent.is_dir():
        raise BadInput(f"-o {out}: {out.parent} is not a folder; make it, or give another name")
    if out.is_dir():
        suffixes = (f".{request.to}", ".json") if request.to == "csv" else (f".{request.to}",)
        foreign_file = next((file.name for file in sorted(out.iterdir()) if file.suffix not in suffixes), None)
        if foreign_file is not None:
            raise BadInput(
                f"-o {out}: the folder holds {foreign_file}, which no export to {request.to} made; give another name"
            )
    elif out.exists():
        raise BadInput(f"-o {out}: is a file; give the name of a folder, because {request.to} writes several files")


def _folder(trace: Trace, request: ExportRequest, on_progress: OnProgress) -> Report:
    """Write an export that consists of several files: PNG maps, CSV tables or Parquet tables.

    Returns:
        The names of the ``files`` and, for tables, the total number of ``rows``.
    """
    with open_output_folder("-o", request.out) as folder:
        if request.to == "png":
            kinds = map_kinds(trace, request.names)
            count = len(kinds) * trace.header.wafers
            return {"files": tuple(write_pngs(wafer_maps(trace, kinds), _title(trace), folder, count, on_progress))}
        tables = chosen_tables(trace, request.names, planes=request.planes)
        files = write_tables(trace, tables, request.to, folder, on_progress)
        return {"files": tuple(files), "rows": sum(table.rows for table in tables)}


def _file(trace: Trace, request: ExportRequest, on_progress: OnProgress) -> Report:
    """Write an export that is a single file: a timeline or a log of wavelets.

    Returns:
        Counts of the contents, keyed by name, such as ``slices`` and ``passes`` for a timeline.
    """
    if request.to == "simulator-log":
        events = router_events(trace, request.wafer_index or 0, cycle_range(request.cycles))
        with _open_file(request.out) as file:
            write_simulator_log(events, trace.header.rows, trace.header.cols, file, on_progress)
        return {"events": len(events.cycle), "wavelets": len(np.unique(events.wavelet))}
    selection = select_passes(trace, token_range(request.tokens))
    total = 2 * selection.slices

    def on_events(event_count: int) -> None:
        """Report how many events were written, with an estimate of the total.

        The estimate is two events for each slice (event with a duration): the slice and a counter
        value.
        """
        on_progress(min(event_count, total), total + 1, "timeline")

    with _open_file(request.out) as file:
        slices = write_perfetto(timeline(trace, selection), _timeline_attributes(trace), file, on_events)
    report: Report = {"slices": slices, "passes": len(selection.passes), "left_out_passes": selection.left_out}
    if len(selection.tokens):
        report["tokens"] = (int(selection.tokens[0]), int(selection.tokens[-1]))
    generated_tokens = np.flatnonzero(trace.column("tokens/is_prompt") == 0)
    if len(generated_tokens):
        report["first_generated_token"] = int(generated_tokens[0])
    return report


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open the output file for writing, gzip-compressed if its name ends in ``.gz``."""
    with open_output("-o", path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
                yield cast(IO[bytes], compressed)
        else:
            yield file


def _title(trace: Trace) -> str:
    """Return the heat map title: model, wafer, mapping, and whether the run is incomplete."""
    header = trace.header
    state = "" if trace.complete else " (not completed)"
    return f"{header.model} on {header.wafer}, mapping {header.mapping}{state}"


def _timeline_attributes(trace: Trace) -> dict[str, Any]:
    """Return facts about the run, such as ``clock_hz`` and ``model``, for a timeline's header.

    The facts include a note that a microsecond in the file represents a cycle.
    """
    names = ("clock_hz", "model", "wafer", "mapping", "wafers", "created_by", "program_digest")
    return {
        "time": "1 µs in this file is 1 cycle of the wafer",
        **{name: getattr(trace.header, name) for name in names},
        "complete": trace.complete,
    }
