"""``wse compare``: one model on several machines and mappings, or the traces of two runs."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from wse.cli import options as opt
from wse.errors import BadInput

OF_TRACES: Final = frozenset(("model", "economics", "csv", "png", "html", "json"))
"""What may be said of traces; every other option is of models."""


def compare(
    context_: typer.Context,
    model: Annotated[
        list[str],
        typer.Argument(metavar="MODEL|TRACE TRACE", help="A model as for wse run, or two files that wse run wrote."),
    ],
    wafer: opt.Wafer = "wse3",
    mesh: opt.WholeMesh = None,
    wafers: Annotated[
        str, typer.Option(metavar="1,2,4|auto", help="Numbers of wafers; auto: 1, 2, 4 and 8 times the fewest.")
    ] = "auto",
    mapping: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Names of `wse mappings`. Default: all of them.")
    ] = None,
    link_bandwidth: Annotated[
        str | None,
        typer.Option(metavar="GB/s,...", help="Of links between wafers. Default: the wafer's own, 8 and 150 GB/s."),
    ] = None,
    link_latency: Annotated[
        str | None,
        typer.Option(metavar="µs,...", help="Of links between wafers. Default: the wafer's own, 20 and 0.5 µs."),
    ] = None,
    streams: Annotated[
        int | None, typer.Option(metavar="N", help="Batches in flight at once. Default: as many as their caches fit.")
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With a verdict: one-wafer-or-many, pipeline-or-tensor or sram-or-streaming."
        ),
    ] = None,
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
    economics: opt.Economics = None,
    csv: Annotated[str | None, typer.Option(metavar="FILE", help="Write the rows as CSV too.")] = None,
    png: Annotated[str | None, typer.Option(metavar="FILE", help="Write a plot of the rows.")] = None,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write one page with tables and plot.")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Set a model on several numbers of wafers, mappings and links side by side, and say what limits each.

    Examples:

    \b
      wse compare story --mesh 24x24 --wafers 1,2 --prompt-len 64 --new-tokens 64
      wse compare story --mesh 24x24 --wafers 2 --mapping region --link-bandwidth 8,32,150 --link-latency 0.5,5,20
      wse compare story --mesh 24x24 --prompt-len 64 --new-tokens 64 --question sram-or-streaming
    """
    from wse.inspect.query.compared import check_traces, compare_traces, is_trace
    from wse.report.as_json import as_json
    from wse.report.progress import SETTING_BESIDE, progress_on
    from wse.request.compare_request import CompareRequest
    from wse.request.estimate_request import EstimateRequest
    from wse.studies.compare.files import check_files, write_files
    from wse.studies.compare.grid import compare as compared
    from wse.studies.compare.questions import answer
    from wse.studies.compare.table import print_comparison
    from wse.studies.compare.traces_table import print_traces

    files = check_files(model, csv=csv, png=png, html=html)
    if len(model) > 1 or is_trace(model[0]):
        first, second = check_traces(model)
        _refuse_others(context_)
        report = compare_traces(first, second, economics)
        write_files(report, files)
        if json:
            sys.stdout.write(as_json(report))
        else:
            print_traces(report, sys.stdout)
        return
    request = CompareRequest(
        base=EstimateRequest(
            model=model[0],
            wafer=wafer,
            mesh=mesh,
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
            economics=economics,
        ),
        wafers=_wafers(wafers),
        mappings=None if mapping is None else _parts("--mapping", mapping),
        link_gb_per_s=_numbers("--link-bandwidth", link_bandwidth, "GB/s"),
        link_latency_us=_numbers("--link-latency", link_latency, "µs"),
        streams=streams,
    )
    with progress_on(sys.stderr, SETTING_BESIDE) as heard:
        report = compared(request, heard) if question is None else answer(question, request, heard)
    write_files(report, files)
    if json:
        sys.stdout.write(as_json(report))
    else:
        print_comparison(report, sys.stdout)


def _refuse_others(context: typer.Context) -> None:
    """Refuse options of models beside traces."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in OF_TRACES and source is not None and source.name == "COMMANDLINE":
            message = f"{parameter.opts[0]}: is of models, and two traces are compared; leave it out"
            raise BadInput(message)


def _wafers(text: str) -> tuple[int, ...] | None:
    """The numbers of wafers; None for auto."""
    if text == "auto":
        return None
    counts = [opt.wafer_count(part) for part in _parts("--wafers", text)]
    if None in counts:
        message = f"--wafers {text!r}: auto stands alone; give whole numbers with commas between, or auto"
        raise BadInput(message)
    return tuple(count for count in counts if count is not None)


def _parts(option: str, text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if "" in parts:
        message = f"{option} {text!r}: give values with commas between"
        raise BadInput(message)
    return parts


def _numbers(option: str, text: str | None, unit: str) -> tuple[float, ...] | None:
    """The numbers of a list; None where it is not given."""
    if text is None:
        return None
    numbers = []
    for part in _parts(option, text):
        try:
            numbers.append(float(part))
        except ValueError as error:
            message = f"{option} {text!r}: {part!r} is no number; give {unit} with commas between, such as 8,32,150"
            raise BadInput(message) from error
    return tuple(numbers)
