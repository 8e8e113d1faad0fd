"""The rows of `wse validate` as a CSV file: what was measured, what was predicted, how far off that is."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput

COLUMNS: Final = (
    "file",
    "line",
    "source",
    "kernel",
    "metric",
    "measured",
    "predicted",
    "error_pct",
    "predicted_plain",
    "error_plain_pct",
    "method",
    "software",
    "reason",
)
"""Cells are empty where a row has no such value. ``predicted_plain`` is without speculative decoding."""

Facts = dict[str, Any]


def check_csv_option(path: Path) -> None:
    """Refuse what cannot be such a file, before anything is predicted.

    Raises:
        BadInput: the path does not end in ``.csv``, is a folder, or its folder is missing.
    """
    if path.suffix != ".csv":
        msg = f"--csv {path}: give the name of a CSV file, which ends in .csv"
        raise BadInput(msg)
    if not path.parent.is_dir():
        msg = f"--csv {path}: {path.parent} is no folder; make it, or give another name"
        raise BadInput(msg)
    if path.is_dir():
        msg = f"--csv {path}: is a folder; give another name"
        raise BadInput(msg)


def write_csv(facts: Facts, path: Path) -> None:
    """Write the rows of a report.

    Raises:
        BadInput: the file cannot be written.
    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    for row in facts["rows"]:
        writer.writerow({**row, "metric": row["input"]["metric"]})
    try:
        path.write_text(out.getvalue(), encoding="utf-8")
    except OSError as error:
        msg = f"--csv {path}: cannot be written ({error.strerror}); give another name"
        raise BadInput(msg) from error
