"""``wse run``: compile, execute, stream the text, and say where the cycles went."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wse.cli import options as opt


def run(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model folder, or a name of `wse models`."),
    ] = "story",
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
    chat: opt.Chat = False,  # noqa: FBT002
    system: opt.System = None,
    max_new_tokens: opt.MaxNewTokens = None,
    temperature: opt.Temperature = 0.0,
    top_k: opt.TopK = 0,
    top_p: opt.TopP = 1.0,
    min_p: opt.MinP = 0.0,
    repetition_penalty: opt.RepetitionPenalty = 1.0,
    seed: opt.Seed = 0,
    logits: Annotated[bool, typer.Option("--logits", help="Also report the logits after the prompt.")] = False,  # noqa: FBT002
    allow_nonfinite: opt.AllowNonfinite = False,  # noqa: FBT002
    trace: Annotated[str, typer.Option(metavar="PATH|none", help="Where to write the trace.")] = "wse-run.h5",
    trace_policy: Annotated[
        str,
        typer.Option(metavar="stop|continue", help="What a run does when its trace cannot be written any more."),
    ] = "stop",
    record: Annotated[
        str | None,
        typer.Option(
            metavar="activations[=OP,...]",
            help="Keep what ops make in the trace; of all, or as layers.*.attention,head.",
        ),
    ] = None,
    wavelets: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--wavelets", help="Also carry out the last pass wavelet by wavelet, and trace every move."),
    ] = False,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Run a model on a virtual wafer; without arguments the bundled one on a small wafer.

    Examples:

    \b
      wse run
      wse run --prompt "One day, a little fox" --max-new-tokens 64
      wse run --prompt "One day" --prompt "The little fox" --max-new-tokens 24
      wse run --temperature 0.8 --top-p 0.9 --repetition-penalty 1.1 --seed 7
      wse run --mesh 24x24 --mapping pipeline --wafers 2 --dtype float16
      wse run --max-new-tokens 8 --wavelets --trace wavelets.h5
      wse run --max-new-tokens 8 --record activations=layers.0.*,head
    """
    from wse.execute.sampling import Sampling
    from wse.record.keeper import check_policy
    from wse.record.ops import recorded_ops
    from wse.report.as_json import as_json
    from wse.report.progress import COMPILING, progress_on
    from wse.report.terminal import stream_text
    from wse.request.run_request import prepare
    from wse.request.trace_path import check_trace_path
    from wse.studies.compile.choose import compiled
    from wse.studies.run.summary import print_run

    request = opt.request(
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
        chat=chat,
        system=system,
        max_new_tokens=max_new_tokens,
        sampling=Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        ),
        logits=logits,
        allow_nonfinite=allow_nonfinite,
    )
    path = opt.trace_path(trace)
    check_policy(trace_policy)
    prepared = prepare(request, to_run=True)
    ops = () if record is None else recorded_ops(record, prepared.spec, traced=path is not None)
    if path is not None:
        check_trace_path(path)
    program = compiled(prepared)

    from wse.studies.run.run import run as execute

    with progress_on(sys.stderr, COMPILING) as on_ready, stream_text(sys.stdout) as on_text:
        report = execute(
            prepared,
            program,
            trace=path,
            trace_policy=trace_policy,
            record=ops,
            wavelets=wavelets,
            on_text=(lambda text: None) if json else on_text,
            on_warning=lambda message: opt.warn(sys.stderr, message),
            on_ready=on_ready,
        )
    if json:
        sys.stdout.write(as_json(report))
    else:
        print_run(report, sys.stdout)
