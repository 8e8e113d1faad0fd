"""The options and the output that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from wse.request.option import Option

if TYPE_CHECKING:
    from wse.report.result import Result

Json = Annotated[bool, Option(doc="Print one JSON object on stdout and nothing else there.", panel="Output")]


def print_result(result: Result, *, json: bool, detail: bool = False) -> None:
    """Print a result on stdout: one JSON object, or its tables."""
    from wse.report.as_json import as_json
    from wse.report.terminal_table import print_result as print_as_tables

    if json:
        sys.stdout.write(as_json(result))
    else:
        print_as_tables(result, sys.stdout, detail=detail)


def warn(message: str) -> None:
    """Say on stderr what the user should know though the command goes on."""
    sys.stderr.write(f"wse: warning: {message}\n")
    sys.stderr.flush()
