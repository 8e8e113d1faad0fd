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
    from wse.studies.compile.compile import compile_request
    from wse.studies.compile.summary import print_compilation

    result = compile_request(request)
    if json:
        sys.stdout.write(as_json(result))
    else:
        print_compilation(result, sys.stdout)
