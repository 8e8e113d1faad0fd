"""``wse estimate``: cycles, traffic and SRAM of a model from its config alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wse.cli import options as opt
from wse.request.estimate_request import EstimateRequest
from wse.request.option import Option


def estimate(
    request: EstimateRequest,
    command_line: typer.Context,
    detail: Annotated[  # noqa: FBT002
        bool, Option(doc="Also by kind of layer and by stage, and where everything is.", panel="Output")
    ] = False,
    write_mapping: opt.WriteMapping = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Estimate a model on full-size wafers or GPUs, from its config.

    Speed, memory, traffic, energy, cost. Nothing is executed.

    Examples:

    \b
      wse estimate llama-3-8b
      wse estimate story --mesh 24x24 --wafers 2 --mapping pipeline --new-tokens 64 --prompt-len 64 --batch 4
      wse estimate story --mesh 24x24 --prompt-len 64 --new-tokens 64 --sensitivity --detail
      wse estimate llama-3-8b --wafer wse2 --trace llama-3-8b.h5
      wse estimate llama-3.1-70b --gpu h100 --gpus 8 --stack vllm --dtype fp8 --batch 16
    """
    from wse.report.progress import ESTIMATING, progress_on
    from wse.request.gpu_estimate_request import check_machine
    from wse.studies.estimate.estimate import estimate as study

    check_machine(request, opt.given(command_line, EstimateRequest))
    if request.gpu is not None:
        from wse.errors import BadInput
        from wse.studies.estimate.gpus import estimate_on_gpus

        if write_mapping is not None:
            message = f"--gpu {request.gpu}: --write-mapping writes regions of wafers; leave it out"
            raise BadInput(message)
        opt.print_result(estimate_on_gpus(request), json=json, detail=detail)
        return
    path = opt.mapping_path(write_mapping)
    with progress_on(sys.stderr, ESTIMATING) as on_progress:
        result = study(request, on_progress=on_progress)
    opt.write_mapping_file(path, result.system)
    opt.print_result(result, json=json, detail=detail)
