"""The options that several commands have, and how their texts become values."""

from __future__ import annotations

from typing import Annotated, TextIO

import typer

from wse.errors import BadInput
from wse.request.option import whole_number

Wafer = Annotated[str, typer.Option(metavar="NAME|FILE", help="A name of `wse wafers`, or a TOML file.")]
WholeMesh = Annotated[
    str | None,
    typer.Option(metavar="ROWSxCOLS", help="Use a smaller mesh of the wafer's PEs. Default: the whole wafer."),
]
Region = Annotated[
    str | None, typer.Option(metavar="ROWSxCOLS", help="PEs of one region. Default: the mapping's choice.")
]
Experts = Annotated[
    str, typer.Option(metavar="spread|own", help="Each expert over all columns of a region, or on columns of its own.")
]
Software = Annotated[str, typer.Option(metavar="NAME|FILE", help="The set of software costs: tuned, academic, ...")]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="float32, float16 or bfloat16 throughout; or weights of linear layers as int8 or fp8 (e4m3) with a scale "
        "an output, or as int4 with a scale every 32 inputs. Default: the model's own.",
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE", help="All but quantised weights: float32, float16, bfloat16. Default: the model's own."
    ),
]
Accumulate = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Sums: float32 (default), or float16 with --dtype float16.")
]
Context = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens that the KV cache has room for. Default: prompt + new tokens.")
]
PromptLen = Annotated[int, typer.Option(metavar="N", help="Tokens of each user's prompt.")]
NewTokens = Annotated[int, typer.Option(metavar="N", help="Tokens generated for each user.")]
Batch = Annotated[int, typer.Option(metavar="N", help="Users whose tokens are decoded together.")]
Economics = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Power and prices in a TOML file, in place of those of wse/data/economics.toml."),
]
Defects = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|RATE",
        help="Dead PEs and links: a CSV file of them, or the share of PEs that are dead, such as 1e-4.",
    ),
]
DefectsSeed = Annotated[int, typer.Option(metavar="N", help="Of the dead PEs that a rate draws.")]
Json = Annotated[
    bool,
    typer.Option("--json", rich_help_panel="Output", help="Print one JSON object on stdout and nothing else there."),
]


def wafer_count(text: str) -> int | None:
    """The number of ``--wafers``; None for ``auto``. Raises BadInput where it is no number."""
    if text == "auto":
        return None
    number = whole_number(text)
    if number is None:
        message = f"--wafers {text!r}: give a whole number of at least 1, or auto"
        raise BadInput(message)
    return number


def warn(stream: TextIO, message: str) -> None:
    """Say what the user should know though the command goes on."""
    stream.write(f"wse: warning: {message}\n")
    stream.flush()
