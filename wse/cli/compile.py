"""``wse compile``: the mapping, and nothing executed."""

from __future__ import annotations

import sys

from wse.cli import options as opt


def compile_(
    model: opt.Model,
    wafer: opt.Wafer = "wse2",
    mesh: opt.Mesh = None,
    wafers: opt.Wafers = "1",
    mapping: opt.Mapping = "region",
    region: opt.Region = None,
    experts: opt.Experts = "spread",
    software: opt.Software = "tuned",
    dtype: opt.Dtype = None,
    activations: opt.Activations = None,
    accumulate: opt.Accumulate = None,
    context: opt.Context = None,
    defects: opt.Defects = None,
    defects_seed: opt.DefectsSeed = 0,
    prompt: opt.Prompt = None,
    prompt_ids: opt.PromptIds = None,
    prompts: opt.Prompts = None,
    max_new_tokens: opt.MaxNewTokens = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Show where a model goes on a wafer: regions, the SRAM map, colours. Weights are not needed.

    Examples:

    \b
      wse compile story
      wse compile story --mapping pipeline --wafers 2 --context 512
    """
    from wse.report.as_json import as_json
    from wse.request.run_request import prepare
    from wse.studies.compile.choose import compiled
    from wse.studies.compile.compile import placement
    from wse.studies.compile.summary import print_compilation

    prepared = prepare(
        opt.request(
            model=model,
            wafer=wafer,
            mesh=mesh,
            wafers=wafers,
            mapping=mapping,
            region=region,
            experts=experts,
            software=software,
            dtype=dtype,
            activations=activations,
            accumulate=accumulate,
            context=context,
            defects=defects,
            defects_seed=defects_seed,
            prompt=prompt,
            prompt_ids=prompt_ids,
            prompts=prompts,
            max_new_tokens=max_new_tokens,
        )
    )
    report = placement(prepared, compiled(prepared))
    if json:
        sys.stdout.write(as_json(report))
    else:
        print_compilation(report, sys.stdout)
