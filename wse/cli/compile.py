"""``wse compile``: shows the placement of a model, without executing anything."""

from __future__ import annotations

from wse.cli import options as opt
from wse.studies.compile.request import CompileRequest


def compile(
    request: CompileRequest,
    write_mapping: opt.WriteMapping = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Show how a model is placed on wafers.

    Show the regions of PEs, the SRAM map and the colours (each selects a route), as an estimate with
    the same options uses them. Weights are not needed.

    Examples:

    \b
      wse compile story
      wse compile llama-3.1-70b
      wse compile story --mapping pipeline --wafers 2 --context 512
      wse compile story --mapping pipeline --mesh 24x24 --write-mapping regions.toml
    """
    from wse.studies.compile.compile import compile_request

    path = opt.mapping_path(write_mapping)
    result = compile_request(request.base)
    opt.write_mapping_file(path, result.system)
    opt.print_result(result, json=json)
