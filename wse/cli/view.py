"""``wse view``: writes a self-contained HTML page about a trace."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.option import Option


def view(
    traces: Annotated[list[str], Option(positional=True, repeats=True, metavar="TRACE [TRACE]")],
    output: Annotated[str, Option(short="-o", metavar="FILE")] = "wse-view.html",
    in_browser: Annotated[bool, Option(flag="--open")] = False,  # noqa: FBT002
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Write one HTML page about a trace.

    The page shows the main results, what limits them, a token's timeline, maps of the wafers, and
    steps. It needs no network and no other file. Keyboard shortcuts and the main facts are next to
    each picture. The address of the page contains the chosen view.

    Examples:

    \b
      wse view wse-run.h5
      wse view wse-run.h5 -o report.html --open
      wse view before.h5 after.h5 -o both.html

    Args:
        traces: A file of wse run or wse estimate; with a second, both side by side.
        output: Page to write. An existing file is replaced. -: standard output.
        in_browser: Open the page in a browser.
    """
    import webbrowser

    from wse.errors import BadInput
    from wse.reports.output_file import output_path, write_output
    from wse.reports.result import as_json
    from wse.reports.terminal import console_on, printable
    from wse.tracing.page.page import ViewResult, check_names, view_page

    paths = check_names(traces)
    if output == "-":
        if json or in_browser:
            raise BadInput(
                f"--output -: standard output contains only the page; leave out {'--json' if json else '--open'}"
            )
        sys.stdout.buffer.write(view_page(paths))
        return
    path = output_path("--output", output, inputs=paths)
    page = view_page(paths)
    write_output("--output", path, page)
    if in_browser:
        webbrowser.open(path.resolve().as_uri())
    if json:
        sys.stdout.write(as_json(ViewResult(page=str(path), bytes=len(page), traces=tuple(map(str, paths)))))
    else:
        console_on(sys.stdout).print(
            f"{printable(path)}: {len(page) / 1e6:.2f} MB; open it in a browser", soft_wrap=True
        )
