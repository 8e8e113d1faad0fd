"""``wse compile``: the mapping, and nothing executed."""

from __future__ import annotations

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
    from wse.studies.compile.compile import compile_request

    opt.print_result(compile_request(request), json=json)
