"""``wse inspect``: shows the contents of a trace."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer

from wse.cli import options as opt
from wse.errors import BadInput
from wse.option import Option
from wse.tracing.requests import InspectRequest


def inspect(
    request: InspectRequest,
    csv: Annotated[str | None, Option(metavar="FILE|-")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Show the contents of a trace: cycles, PEs, steps, links.

    The summary shows where the cycles went, how full the PEs were, and which steps and links were
    the busiest.

    Examples:

    \b
      wse inspect wse-run.h5
      wse inspect wse-run.h5 --steps --sort launch --top 30
      wse inspect wse-run.h5 --by kind
      wse inspect wse-run.h5 --by op --each-layer
      wse inspect wse-run.h5 --links --top 5
      wse inspect wse-run.h5 --pe 0,3
      wse inspect wse-run.h5 --pe 0,3 --sram-png sram.png
      wse inspect wse-run.h5 --tokens --csv tokens.csv
      wse inspect wse-run.h5 --diff other.h5
      wse inspect wse-run.h5 --check
      wse inspect wavelets.h5 --cycles 100-200

    Args:
        csv: Also write the view as CSV; -: only CSV, to stdout.
    """
    from wse.reports.output_file import output_path, picture_path, write_output
    from wse.reports.rows_csv import nested_csv
    from wse.tracing.export.sram_png import sram_png_of
    from wse.tracing.print.views import print_view
    from wse.tracing.query.places.contents import DumpView, content_file
    from wse.tracing.query.request import check_csv, inspect_trace
    from wse.tracing.query.view import CheckView

    if csv is not None:
        check_csv(request.view)
    input_paths = [path for path in (request.trace, request.diff) if path is not None]
    file = None if csv in (None, "-") else output_path("--csv", str(csv), inputs=input_paths)
    if csv == "-" and json:
        raise BadInput("--json and --csv -: both are for stdout; give --csv the name of a file, or leave one out")
    dump_path = None if request.dump_file is None else output_path("--dump-file", request.dump_file, inputs=input_paths)
    picture = None if request.sram_png is None else picture_path("--sram-png", request.sram_png, inputs=input_paths)
    view = inspect_trace(request)
    if dump_path is not None and isinstance(view, DumpView):
        write_output("--dump-file", dump_path, content_file(view.content, dump_path.suffix))
    if picture is not None:
        write_output("--sram-png", picture, sram_png_of(request))
    if file is not None:
        write_output("--csv", file, nested_csv(view.table_rows()).encode())
    if csv == "-":
        sys.stdout.write(nested_csv(view.table_rows()))
    else:
        print_text = partial(print_view, top=request.top, each_layer=request.each_layer, as_hex=request.as_hex)
        opt.print_result(view, json=json, print_text=print_text)
    if isinstance(view, CheckView) and not view.sound:
        raise typer.Exit(2)
