"""``wse estimate``: estimates cycles, traffic and SRAM of a model from its config alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wse.cli import options as opt
from wse.errors import BadInput
from wse.option import Option
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options import known_names

if TYPE_CHECKING:
    from wse.studies.what_if.result import WhatIfResult


def estimate(
    request: EstimateRequest,
    command_line: typer.Context,
    detail: Annotated[bool, Option(panel="Output")] = False,  # noqa: FBT002
    what_if: Annotated[
        str | None, Option(panel="Output", metavar="CHANGE=xFACTOR,...|default", known_values=known_names.changes)
    ] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE.png")] = None,
    write_mapping: opt.WriteMapping = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Estimate a model on full-size wafers or GPUs, from its config.

    Show speed, memory, traffic, energy and cost. Nothing is executed.

    Examples:

    \b
      wse estimate llama-3-8b
      wse estimate story --mesh 24x24 --wafers 2 --mapping pipeline --new-tokens 64 --prompt-len 64 --batch 4
      wse estimate story --mesh 24x24 --prompt-len 64 --new-tokens 64 --sensitivity --detail
      wse estimate llama-3-8b --wafer wse2 --trace llama-3-8b.h5
      wse estimate llama-3-8b --what-if clock=x2,sram=x2,latency=x0.5 --png tornado.png
      wse estimate llama-3.1-70b --gpu h100 --gpus 8 --stack vllm --dtype fp8 --batch 16

    Args:
        detail: Also show results by kind of layer and stage, and the placement.
        what_if: Instead of one estimate, show the effect of each change on its own, the largest
            first: clock, sram, hop, arithmetic, dispatch, latency, bandwidth, host, or a number as
            for --set; default: all of these.
        png: Draw --what-if or --uncertainty as a tornado chart.
    """
    from wse.reports.progress import ESTIMATING, progress_on
    from wse.studies.estimate.cached import cached_estimate
    from wse.studies.estimate.gpus.check_machine import check_machine

    check_machine(request, opt.given_fields(command_line, EstimateRequest))
    if what_if is not None:
        if write_mapping is not None or detail:
            option = "--detail" if detail else f"--write-mapping {write_mapping}"
            raise BadInput(f"{option}: applies to one machine, but --what-if compares several; leave out one")
        opt.print_result(_what_if(request, what_if, png), json=json)
        return
    if png is not None and not request.uncertainty:
        raise BadInput(f"--png {png}: draws the result of --what-if or --uncertainty; add one of them, or leave it out")
    if request.gpu is not None:
        from wse.studies.estimate.gpus.study import estimate_on_gpus

        if write_mapping is not None:
            raise BadInput(f"--gpu {request.gpu}: --write-mapping writes regions of wafers; leave it out")
        opt.print_result(estimate_on_gpus(request), json=json, detail=detail)
        return
    path, picture = opt.mapping_path(write_mapping), None
    if png is not None:
        from wse.reports.output_file import picture_path  # it loads h5py

        picture = picture_path("--png", png)
    with progress_on(sys.stderr, ESTIMATING) as on_progress:
        result = cached_estimate(request, on_progress=on_progress)
    opt.write_mapping_file(path, result.system)
    if picture is not None and result.uncertainty is not None:
        from wse.reports.output_file import png_of, write_output

        write_output("--png", picture, png_of(result.uncertainty.plot()))
    opt.print_result(result, json=json, detail=detail)


def _what_if(request: EstimateRequest, changes: str, png: str | None) -> WhatIfResult:
    """Return the result of --what-if, and write its chart if --png is given.

    Args:
        request: Estimate whose machine is changed.
        changes: Value of --what-if, the changed numbers.
        png: Value of --png, or None.
    """
    from wse.reports.output_file import picture_path, png_of, write_output
    from wse.reports.progress import TRYING, progress_on
    from wse.studies.what_if.changes import read_changes
    from wse.studies.what_if.study import check, what_if

    check(request)
    path = None if png is None else picture_path("--png", png)
    changes_to_try = read_changes(changes)
    with progress_on(sys.stderr, TRYING) as on_progress:
        result = what_if(request, changes_to_try, on_progress)
    if path is not None:
        write_output("--png", path, png_of(result.plot()))
    return result
