"""Options and output functions that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TextIO, TypeVar

from wse.option import Option

if TYPE_CHECKING:
    from pathlib import Path

    import typer

    from wse.reports.result import Result
    from wse.studies.results.placement import SystemResult

R = TypeVar("R", bound="Result")

Json = Annotated[bool, Option(doc="Print one JSON object on stdout and nothing else there.", panel="Output")]

Price = Annotated[str | None, Option(panel="Output", metavar="NAME=USD,...")]

WriteMapping = Annotated[
    str | None,
    Option(
        doc="Also write the regions as a mapping file, which you can edit and use with --mapping.",
        panel="Output",
        metavar="FILE",
    ),
]


def given_fields(context: typer.Context, request: type) -> set[str]:
    """Return the names of the request fields that the user specified on the command line.

    A field counts even if its value equals the default.

    Args:
        context: Context of the invocation.
        request: Class of the request.
    """
    from wse.studies.options.option import options_of

    sources = {name: context.get_parameter_source(name) for name in options_of(request)}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def mapping_path(write_mapping: str | None) -> Path | None:
    """Return the path from the option --write-mapping, or None if it was not specified.

    The path is checked here, before any long computation.

    Raises:
        BadInput: The path cannot be written, or does not end in ``.toml``.
    """
    if write_mapping is None:
        return None
    from wse.reports.output_file import output_path  # imported here because it imports h5py, which is slow

    return output_path("--write-mapping", write_mapping, suffix=".toml", kind="a mapping file")


def write_mapping_file(path: Path | None, system: SystemResult) -> None:
    """Write a result's regions to the file given by the option --write-mapping, if any.

    Raises:
        BadInput: The file cannot be written.
    """
    if path is not None:
        from wse.reports.output_file import write_output

        write_output("--write-mapping", path, system.mapping_file().encode())


def print_result(
    result: R, *, json: bool, detail: bool = False, print_text: Callable[[R, TextIO], None] | None = None
) -> None:
    """Print a result on stdout: as one JSON object, or as tables.

    Args:
        result: Result to print.
        json: Whether to print JSON.
        detail: Whether the tables show all details.
        print_text: Function that prints the result as text instead of its tables, without
            ``detail``. None prints the tables.
    """
    from wse.reports.result import as_json
    from wse.reports.terminal_table import print_result as print_as_tables

    if json:
        sys.stdout.write(as_json(result))
    elif print_text is not None:
        print_text(result, sys.stdout)
    else:
        print_as_tables(result, sys.stdout, detail=detail)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    sys.stderr.write(f"wse: warning: {message}\n")
    sys.stderr.flush()


def ignore_closed_pipe(write: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that writes to stdout, and discards all text once the reader has closed it.

    A program such as ``head`` closes the pipe from stdout when it has read enough. No error is
    raised then.

    Args:
        write: Function that writes text to stdout.
    """

    def write_or_drop(text: str) -> None:
        """Write text to stdout, or discard this and all later text if the pipe is closed."""
        try:
            write(text)
        except BrokenPipeError:
            drop_stdout()

    return write_or_drop


def drop_stdout() -> None:
    """Discard everything that is written to stdout from now on.

    Later writes and the flush at exit then raise no error.
    """
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # stdout is not a real file, as in tests
        pass
