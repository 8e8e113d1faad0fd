"""``wse estimate``: cycles, traffic and SRAM of a model from its config alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wse.cli import options as opt


def estimate(
    model: opt.Model,
    wafer: opt.Wafer = "wse3",
    mesh: opt.WholeMesh = None,
    wafers: opt.Wafers = "auto",
    mapping: opt.Mapping = "region",
    region: opt.Region = None,
    experts: opt.Experts = "spread",
    software: opt.Software = "production",
    dtype: opt.Dtype = None,
    activations: opt.Activations = None,
    accumulate: opt.Accumulate = None,
    prompt_len: opt.PromptLen = 1024,
    new_tokens: opt.NewTokens = 1024,
    batch: opt.Batch = 1,
    context: opt.Context = None,
    defects: opt.Defects = None,
    defects_seed: opt.DefectsSeed = 0,
    capacity: Annotated[
        str, typer.Option(metavar="refuse|report", help="Whether a model that does not fit is timed all the same.")
    ] = "refuse",
    economics: opt.Economics = None,
    sensitivity: Annotated[  # noqa: FBT002
        bool, typer.Option("--sensitivity", help="Also what a slower hop, more SRAM or a faster link would change.")
    ] = False,
    detail: Annotated[  # noqa: FBT002
        bool, typer.Option("--detail", help="Also by kind of layer and by stage, and where everything is.")
    ] = False,
    trace: Annotated[
        str, typer.Option(metavar="PATH|none", help="Write a trace of it, to look inside with `wse inspect`.")
    ] = "none",
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Estimate a model on full-size wafers, from its config alone: speed, SRAM, traffic. Nothing is executed.

    Examples:

    \b
      wse estimate llama-3-8b
      wse estimate story --mesh 24x24 --wafers 2 --mapping pipeline --new-tokens 64 --prompt-len 64 --batch 4
      wse estimate story --mesh 24x24 --prompt-len 64 --new-tokens 64 --sensitivity --detail
      wse estimate llama-3-8b --wafer wse2 --trace llama-3-8b.h5
    """
    from wse.report.progress import ESTIMATING, progress_on
    from wse.request.estimate_request import EstimateRequest
    from wse.request.trace_path import check_trace_path
    from wse.studies.estimate.estimate import estimate as estimated

    path = opt.trace_path(trace)
    if path is not None:
        check_trace_path(path)
    request = EstimateRequest(
        model=model,
        wafer=wafer,
        mesh=mesh,
        wafers=opt.wafer_count(wafers),
        mapping=mapping,
        region=region,
        experts=experts,
        software=software,
        dtype=dtype,
        activations=activations,
        accumulate=accumulate,
        prompt_len=prompt_len,
        new_tokens=new_tokens,
        batch=batch,
        context=context,
        defects=defects,
        defects_seed=defects_seed,
        capacity=capacity,
        economics=economics,
    )
    with progress_on(sys.stderr, ESTIMATING) as on_piece:
        report = estimated(request, sensitivity=sensitivity, trace=path, on_piece=on_piece)
    if json:
        from wse.report.as_json import as_json

        sys.stdout.write(as_json(report))
    else:
        from wse.studies.estimate.summary import print_estimate

        print_estimate(report, sys.stdout, detail=detail)
