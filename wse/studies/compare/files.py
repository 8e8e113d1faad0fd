"""The files that ``wse compare`` writes in addition to its report: paths checked first, content written last."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wse.inspect.query.compare import TracesResult
from wse.report.comparison_row import COLUMNS
from wse.report.output_file import output_path, write_output
from wse.report.rows_csv import as_csv
from wse.studies.compare.page.page import as_html, traces_as_html
from wse.studies.compare.plot import as_png
from wse.studies.compare.result import CompareResult


def check_files(compared: Iterable[str], **files: str | None) -> dict[str, Path]:
    """The paths of the options that were given, by kind.

    Raises:
        BadInput: a path is empty, a folder or one of what is ``compared``, or its folder is missing.
    """
    inputs = [Path(name) for name in compared]
    return {kind: output_path(f"--{kind}", text, inputs=inputs) for kind, text in files.items() if text is not None}


def write_files(result: CompareResult | TracesResult, files: dict[str, Path]) -> None:
    """Write a result to each file.

    Raises:
        BadInput: one cannot be written.
    """
    for kind, path in files.items():
        write_output(f"--{kind}", path, _content(result, kind))


def _content(result: CompareResult | TracesResult, kind: str) -> bytes:
    if kind == "csv":
        return as_csv([row.to_dict() for row in result.rows], COLUMNS).encode()
    if kind == "png":
        return as_png(result)
    return traces_as_html(result) if isinstance(result, TracesResult) else as_html(result)
