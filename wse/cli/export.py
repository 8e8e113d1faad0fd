"""``wse export``: converts a trace to the format of another program."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.studies.options.option import Option


def export(
    trace: Annotated[str, Option(positional=True, metavar="TRACE", doc="A file that wse run or wse estimate wrote.")],
    to: Annotated[str, Option(metavar="FORMAT", doc="perfetto, csv, parquet, png, simulator-log.")],
    output: Annotated[
        str | None,
        Option(
            short="-o",
            metavar="PATH",
            doc="File to write; a folder for csv, parquet, png. Default: named after the trace.",
        ),
    ] = None,
    tokens: Annotated[str | None, Option(metavar="FROM-TO", doc="perfetto: only the passes of these tokens.")] = None,
    what: Annotated[
        str | None,
        Option(metavar="A,B", doc="png: sram, busy, links, north, east, south, west; csv, parquet: tables."),
    ] = None,
    planes: Annotated[bool, Option(doc="csv, parquet: also tables with a row per PE.")] = False,  # noqa: FBT002
    wafer_index: Annotated[
        int | None, Option(metavar="N", doc="simulator-log: index of the wafer. Default: 0.")
    ] = None,
    cycles: Annotated[
        str | None, Option(metavar="FROM-TO", doc="simulator-log: only these cycles of the logged pass.")
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Write a trace in a format that other programs open.

    Formats are a timeline (perfetto), tables (csv, parquet), pictures (png) and a log of wavelets
    (simulator-log).

    Examples:

    \b
      wse export wse-run.h5 --to perfetto
      wse export wse-run.h5 --to perfetto --tokens 12-15 -o tokens.json.gz
      wse export wse-run.h5 --to png --what sram,busy,links
      wse export wse-run.h5 --to csv --what step,token,crossing
      wse export wse-run.h5 --to parquet --planes
      wse export wavelets.h5 --to simulator-log
    """
    from wse.reports.progress import EXPORTING, progress_on
    from wse.tracing.export.files import write_export
    from wse.tracing.export.request import export_request
    from wse.tracing.print.export import print_export

    request = export_request(
        trace, to, output, tokens=tokens, what=what, planes=planes, wafer_index=wafer_index, cycles=cycles
    )
    with progress_on(sys.stderr, EXPORTING) as on_progress:
        report = write_export(request, on_progress)
    opt.print_result(report, json=json, print_text=print_export)
