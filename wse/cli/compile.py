"""``wse compile``: the mapping, and nothing executed."""

from __future__ import annotations

import sys

from wse.cli import options as opt
from wse.request.run_request import CompileRequest


def compile_(request: CompileRequest, json: opt.Json = False) -> None:  # noqa: FBT002
    """Show where a model goes on a wafer.

    Regions, the SRAM map, colours. Weights are not needed.

    Examples:

    \b
      wse compile story
      wse compile story --mapping pipeline --wafers 2 --context 512
    """
    from wse.report.as_json import as_json
    from wse.request.prepare_run import prepare
    from wse.studies.compile.choose import compiled
    from wse.studies.compile.compile import placement
    from wse.studies.compile.summary import print_compilation

    prepared = prepare(request.as_run())
    report = placement(prepared, compiled(prepared))
    if json:
        sys.stdout.write(as_json(report))
    else:
        print_compilation(report, sys.stdout)
