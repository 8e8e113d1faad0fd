"""The files that ``wse compare`` writes besides: checked before anything is compared, written after."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from wse.report.output_file import output_path, write_output
from wse.report.rows_csv import as_csv
from wse.studies.compare.page import as_html
from wse.studies.compare.plot import as_png
from wse.studies.compare.rows import COLUMNS
from wse.studies.compare.traces_page import as_html as traces_as_html
from wse.studies.compare.traces_page import as_png as traces_as_png

Report = dict[str, Any]


def check_files(compared: Iterable[str], **files: str | None) -> dict[str, Path]:
    """The paths of the options that were given, by kind.

    Raises:
        BadInput: a path is empty, a folder or one of what is ``compared``, or its folder is missing.
    """
    inputs = [Path(each) for each in compared]
    return {kind: output_path(f"--{kind}", text, inputs=inputs) for kind, text in files.items() if text is not None}


def write_files(report: Report, files: dict[str, Path]) -> None:
    """Write a report to each file.

    Raises:
        BadInput: one cannot be written.
    """
    made = _TRACES_AS if "traces" in report else _AS
    for kind, path in files.items():
        write_output(f"--{kind}", path, made[kind](report))


def _csv(report: Report) -> bytes:
    return as_csv(report["rows"], COLUMNS).encode()


_AS: Final[dict[str, Callable[[Report], bytes]]] = {"csv": _csv, "png": as_png, "html": as_html}
_TRACES_AS: Final[dict[str, Callable[[Report], bytes]]] = {"csv": _csv, "png": traces_as_png, "html": traces_as_html}
