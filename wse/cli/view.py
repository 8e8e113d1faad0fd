"""``wse view``: one self-contained page about a trace."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.request.option import Option


def view(
    traces: Annotated[
        list[str],
        Option(
            positional=True,
            repeats=True,
            metavar="TRACE [TRACE]",
            doc="A file of wse run or wse estimate; with a second, both side by side.",
        ),
    ],
    output: Annotated[
        str, Option(short="-o", metavar="FILE", doc="The page; one that is there is replaced.")
    ] = "wse-view.html",
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Write one HTML page about a trace.

    Maps of the wafers, a token's timeline, cycles by layer and cause, steps. It needs no network and no other file; its
    keys are told beside each picture, whose main facts are also in words.

    Examples:

    \b
      wse view wse-run.h5
      wse view wse-run.h5 -o report.html
      wse view before.h5 after.h5 -o both.html
    """
    from wse.inspect.page.gather import check_names
    from wse.inspect.page.page import ViewResult, view_page
    from wse.report.as_json import as_json
    from wse.report.output_file import output_path, write_output
    from wse.report.terminal import console_on, printable

    paths = check_names(traces)
    path = output_path("--output", output, inputs=paths)
    page = view_page(paths)
    write_output("--output", path, page)
    if json:
        sys.stdout.write(as_json(ViewResult(page=str(path), bytes=len(page), traces=tuple(map(str, paths)))))
    else:
        console_on(sys.stdout).print(
            f"{printable(path)}: {len(page) / 1e6:.2f} MB; open it in a browser", soft_wrap=True
        )
