"""``wse inspect``: what is in a trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wse.cli import options as opt


def inspect(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A file that wse run wrote.")],
    tree: Annotated[bool, typer.Option("--tree", help="Show the ops of each layer, with their cycles.")] = False,  # noqa: FBT002
    steps: Annotated[bool, typer.Option("--steps", help="Show the slowest steps.")] = False,  # noqa: FBT002
    top: Annotated[int, typer.Option(metavar="N", help="How many of the slowest steps.")] = 10,
    cycles: Annotated[
        str | None,
        typer.Option(metavar="FROM-TO", help="Show the moves of these cycles, of a trace of wse run --wavelets."),
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Show what is in a trace: where the cycles went, how full the PEs were, which steps were slowest.

    Examples:

    \b
      wse inspect wse-run.h5
      wse inspect wse-run.h5 --tree
      wse inspect wse-run.h5 --steps --top 30
      wse inspect wavelets.h5 --cycles 100-200
    """
    from wse.report.as_json import as_json
    from wse.report.trace_summary import print_trace
    from wse.studies.inspect.summary import inspect_trace

    facts = inspect_trace(Path(trace), top=top, cycles=cycles)
    if json:
        sys.stdout.write(as_json(facts))
    else:
        print_trace(facts, sys.stdout, tree=tree, steps=steps)
