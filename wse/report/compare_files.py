"""The files that ``wse compare`` writes besides: checked before anything is compared, written after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput
from wse.report.compare_csv import as_csv
from wse.report.compare_page import as_html
from wse.report.compare_plot import as_png
from wse.report.compare_traces_page import as_html as traces_as_html
from wse.report.compare_traces_page import as_png as traces_as_png
from wse.studies.compare.rows import COLUMNS

Report = dict[str, Any]


def check_files(**files: str | None) -> dict[str, Path]:
    """The paths of the options that were given, by kind.

    Raises:
        BadInput: a path is empty or a folder, or its folder is missing.
    """
    found = {}
    for kind, text in files.items():
        if text is None:
            continue
        path = Path(text)
        if text == "" or path.is_dir():
            message = f"--{kind} {text!r}: {'is a folder' if text else 'the path is empty'}; give a file name"
            raise BadInput(message)
        if not path.parent.is_dir():
            message = f"--{kind} {text}: {path.parent} is no folder; make it, or give another name"
            raise BadInput(message)
        found[kind] = path
    return found


def write_files(report: Report, files: dict[str, Path]) -> None:
    """Write a report to each file.

    Raises:
        BadInput: one cannot be written.
    """
    made = _TRACES_AS if "traces" in report else _AS
    for kind, path in files.items():
        try:
            path.write_bytes(made[kind](report))
        except OSError as error:
            message = f"--{kind} {path}: cannot be written ({error.strerror}); give another name"
            raise BadInput(message) from error


def _csv(report: Report) -> bytes:
    return as_csv(report["rows"], COLUMNS).encode()


_AS: Final[dict[str, Callable[[Report], bytes]]] = {"csv": _csv, "png": as_png, "html": as_html}
_TRACES_AS: Final[dict[str, Callable[[Report], bytes]]] = {"csv": _csv, "png": traces_as_png, "html": traces_as_html}
