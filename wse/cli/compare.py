"""``wse compare``: compares a model on several machines and mappings, or the traces of two runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TextIO, TypeVar

import typer

from wse.cli import options as opt
from wse.errors import BadInput
from wse.option import Option
from wse.studies.compare.request import CompareRequest
from wse.studies.options import known_names
from wse.studies.options.engine import THIS_MACHINE, EngineChoice, check_engine

if TYPE_CHECKING:
    from wse.reports.result import Result
    from wse.reports.table import Table
    from wse.studies.compare.traces import TracesComparison
    from wse.studies.options.serving import CostOptions

R = TypeVar("R", bound="Result")

OF_TRACES: Final = frozenset(("model", "economics", "price", "csv", "png", "html", "markdown", "json"))
"""Options that apply to a comparison of traces. All others apply to models only."""
QUESTIONS: Final = ("one-wafer-or-many", "pipeline-or-tensor", "sram-or-streaming")


def compare(
    invocation: typer.Context,
    model: Annotated[
        list[str],
        Option(positional=True, repeats=True, metavar="MODEL|TRACE TRACE", known_values=known_names.models),
    ],
    request: CompareRequest,
    question: Annotated[str | None, Option(panel="Output", metavar="NAME", known_values=QUESTIONS)] = None,
    csv: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    html: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    engine: EngineChoice = THIS_MACHINE,
    detail: Annotated[bool, Option(panel="Output")] = False,  # noqa: FBT002
    markdown: Annotated[bool, Option(panel="Output")] = False,  # noqa: FBT002
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Compare wafers, mappings and GPUs for a model, or two runs.

    Show a verdict and the best mapping for each number of wafers. With --gpu, show speed against
    cost. For two traces, show what changed.

    Examples:

    \b
      wse compare story --mesh 24x24 --wafers 1,2 --prompt-len 64 --new-tokens 64
      wse compare story --mesh 24x24 --wafers 2 --mapping region --link-bandwidth 8,32,150 --link-latency 500ns,5us,20us
      wse compare story --mesh 24x24 --prompt-len 64 --new-tokens 64 --question sram-or-streaming
      wse compare story --mesh 24x24 --lengths 64/64,16/128 --ttft 1ms --tpot 50us --top 3 --markdown
      wse compare story --mesh 24x24 --prompt-len 64 --new-tokens 64 --gpu h100 --gpus 1 --stack vllm

    Args:
        model: A model as for wse run, or two files that wse run wrote.
        question: Report the verdict on a question: one-wafer-or-many, pipeline-or-tensor or
            sram-or-streaming.
        csv: Write the rows as CSV too.
        png: Write a plot of the rows.
        html: Write one page with tables and plot.
        detail: List all candidates with their traffic, even impossible ones; without --mapping, of
            all mappings.
        markdown: Print tables as Markdown.
    """
    from wse.compiler.strategies import strategies
    from wse.reports.progress import COMPARING, progress_on
    from wse.studies.compare.checks import check_pictures
    from wse.studies.compare.files import check_files, write_files
    from wse.studies.compare.result import CompareResult
    from wse.studies.compare.study import compare_machines, print_machines
    from wse.studies.compare.summary import print_traces
    from wse.studies.compare.tables import verdict_table
    from wse.tracing.query.two_traces.compare import is_trace

    check_engine(engine)
    files = check_files(model, csv=csv, png=png, html=html)
    if len(model) > 1 or is_trace(model[0]):
        traces = _compare_traces(invocation, model, request.base.costs)
        write_files(traces, files)
        _print(traces, traces.tables(), print_traces, json=json, markdown=markdown)
        return
    request = replace(request, base=replace(request.base, model=model[0]))
    if detail:
        request = replace(request, candidates=tuple(strategies()))
    check_pictures(files, question, request)
    with progress_on(sys.stderr, COMPARING) as on_progress:
        result = compare_machines(request, question, on_progress, engine=engine)
    write_files(result, files)
    tables = result.tables(detail=detail)
    if isinstance(result, CompareResult):
        tables = (verdict_table(result.verdict), *tables)
    _print(result, tables, partial(print_machines, detail=detail), json=json, markdown=markdown)


def _compare_traces(invocation: typer.Context, paths: list[str], costs: CostOptions) -> TracesComparison:
    """Compare the traces of two runs.

    Args:
        invocation: The command, whose options that apply to models must not be given.
        paths: Paths of the two traces.
        costs: Prices and energies.
    """
    from wse.studies.compare.traces import TracesComparison
    from wse.tracing.query.two_traces.compare import check_traces, compare_traces

    first, second = check_traces(paths)
    _refuse_model_options(invocation)
    return compare_traces(first, second, costs.economics, costs.price).convert(TracesComparison)


def _print(
    result: R, tables: Sequence[Table], on_terminal: Callable[[R, TextIO], None], *, json: bool, markdown: bool
) -> None:
    """Print a result as JSON, as Markdown tables, or as text for a terminal.

    Args:
        result: Result of the comparison.
        tables: Tables of the result, for Markdown.
        on_terminal: Function that prints the result as text.
        json: Whether to print JSON.
        markdown: Whether to print Markdown.
    """
    from wse.reports.table import tables_as_markdown

    if markdown and not json:
        sys.stdout.write(tables_as_markdown(tables))
    else:
        opt.print_result(result, json=json, print_text=on_terminal)


def _refuse_model_options(invocation: typer.Context) -> None:
    """Raise BadInput if an option that applies to models only is given for two traces."""
    for parameter in invocation.command.params:
        source = invocation.get_parameter_source(str(parameter.name))
        if parameter.name not in OF_TRACES and source is not None and source.name == "COMMANDLINE":
            raise BadInput(f"{parameter.opts[0]}: applies to models, not to traces; leave it out")
