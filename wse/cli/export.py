"""``wse export``: converts a trace to the format of another program."""

from __future__ import annotations

import sys

from wse.cli import options as opt
from wse.tracing.requests import ExportRequest


def export(
    request: ExportRequest,
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
    from wse.tracing.print.views import print_export

    with progress_on(sys.stderr, EXPORTING) as on_progress:
        report = write_export(request, on_progress)
    opt.print_result(report, json=json, print_text=print_export)
