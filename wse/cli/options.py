"""The options and the output that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from wse.studies.options.option import Option

if TYPE_CHECKING:
    from pathlib import Path

    import typer

    from wse.reports.result import Result
    from wse.studies.results.placement import SystemResult

Json = Annotated[bool, Option(doc="Print one JSON object on stdout and nothing else there.", panel="Output")]

WriteMapping = Annotated[
    str | None,
    Option(
        doc="Also write the regions as a mapping file, to be changed and given to --mapping.",
        panel="Output",
        metavar="FILE",
    ),
]


def given(context: typer.Context, request: type) -> set[str]:
    """Return the fields of a request that the command line gives, be it their default."""
    from wse.studies.options.option import options_of

    sources = {name: context.get_parameter_source(name) for name in options_of(request)}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def mapping_path(write_mapping: str | None) -> Path | None:
    """Return the path that --write-mapping names, checked before anything long is done.

    Raises BadInput where it is none.
    """
    if write_mapping is None:
        return None
    from wse.reports.output_file import output_path  # reads no trace, but knows their errors, and h5py with them

    return output_path("--write-mapping", write_mapping, suffix=".toml", kind="a mapping file")


def write_mapping_file(path: Path | None, system: SystemResult) -> None:
    """Write the regions of a result where --write-mapping asks for it. Raises BadInput where that cannot be."""
    if path is not None:
        from wse.reports.output_file import write_output

        write_output("--write-mapping", path, system.mapping_file().encode())


def print_result(result: Result, *, json: bool, detail: bool = False) -> None:
    """Print a result on stdout: one JSON object, or its tables."""
    from wse.reports.as_json import as_json
    from wse.reports.terminal_table import print_result as print_as_tables

    if json:
        sys.stdout.write(as_json(result))
    else:
        print_as_tables(result, sys.stdout, detail=detail)


def warn(message: str) -> None:
    """Say on stderr what the user should know though the command goes on."""
    sys.stderr.write(f"wse: warning: {message}\n")
    sys.stderr.flush()
