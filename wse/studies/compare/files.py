"""Output files of ``wse compare``, whose paths are checked first and which are written last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from wse.reports.output_file import output_path, page_path, picture_path, write_output
from wse.reports.result import Result
from wse.reports.rows_csv import as_csv
from wse.studies.compare.curve.page import curve_as_html
from wse.studies.compare.curve.plot import curve_as_png
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import COLUMNS as CURVE_COLUMNS
from wse.studies.compare.page.page import as_html, traces_as_html
from wse.studies.compare.plan.result import COLUMNS as PLANNED_COLUMNS
from wse.studies.compare.plan.result import PlanResult
from wse.studies.compare.plot import as_png
from wse.studies.compare.result import CompareResult
from wse.tracing.query.two_traces.compare import TracesResult
from wse.tracing.query.two_traces.comparison_row import COLUMNS

Compared: TypeAlias = CompareResult | CurveResult | PlanResult | TracesResult
"""Result of comparing wafers, wafers and GPUs, ranked machines, or two runs."""


_CHECKS: Final = {"png": picture_path, "html": page_path}
"""Functions that check the path of an output file, for file kinds with special checks."""


def check_files(compared_files: Iterable[str], **files: str | Path | None) -> dict[str, Path]:
    """Check the paths of the requested output files.

    Args:
        compared_files: Input files of the comparison, which must not be overwritten.
        files: Requested path for each kind of file (``csv``, ``png`` or ``html``); None if this
            kind is not requested.

    Returns:
        The path of each requested file, keyed by its kind.

    Raises:
        BadInput: A path is empty, a folder, or an input file; its folder is missing; or the name of
            a PNG or HTML file has the wrong suffix.
    """
    inputs = [Path(name) for name in compared_files]
    requested_paths = {kind: text for kind, text in files.items() if text is not None}
    return {
        kind: _CHECKS.get(kind, output_path)(f"--{kind}", str(text), inputs=inputs)
        for kind, text in requested_paths.items()
    }


def write_files(result: Compared, files: dict[str, Path]) -> None:
    """Write a result to each of the requested files.

    Raises:
        BadInput: A file cannot be written.
    """
    for kind, path in files.items():
        write_output(f"--{kind}", path, _content(result, kind))


def _content(result: Compared, kind: str) -> bytes:
    """Return the content of an output file of the given kind: ``csv``, ``png`` or ``html``.

    A `PlanResult` can only be written as CSV.
    """
    if isinstance(result, PlanResult):  # the command line refuses other kinds of files for rankings
        return _csv(result.rows, PLANNED_COLUMNS)
    if kind == "csv":
        return _csv(result.rows, CURVE_COLUMNS if isinstance(result, CurveResult) else COLUMNS)
    if kind == "png":
        return curve_as_png(result) if isinstance(result, CurveResult) else as_png(result)
    if isinstance(result, CurveResult):
        return curve_as_html(result)
    return traces_as_html(result) if isinstance(result, TracesResult) else as_html(result)


def _csv(rows: Sequence[Result], columns: Sequence[str]) -> bytes:
    """Return the content of a CSV file with the given rows and columns."""
    return as_csv([row.to_dict() for row in rows], columns).encode()
