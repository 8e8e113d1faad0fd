"""The rows of `wse validate` as a CSV file: what was measured, what was predicted, how far off that is."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from wse.reports.output_file import write_output
from wse.studies.validate.result import Validation

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
"""Cells are empty where a row has no such value. ``predicted_plain`` is without speculative
decoding."""


def write_csv(validation: Validation, path: Path) -> None:
    """Write the rows of a report.

    Raises:
        BadInput: the file cannot be written.
    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    for row in validation.rows:
        writer.writerow(row.to_dict() | {"metric": row.input["metric"]})
    write_output("--csv", path, out.getvalue().encode())
