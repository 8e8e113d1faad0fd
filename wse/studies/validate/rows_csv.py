"""Writer of `wse validate` rows as a CSV file: measured value, predicted value and error."""

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
"""Columns of the file. Missing values are empty. ``predicted_plain`` excludes speculative
decoding."""


def write_csv(validation: Validation, path: Path) -> None:
    """Write all measurements with their predictions and errors to a CSV file.

    Raises:
        BadInput: The file cannot be written.
    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    for row in validation.rows:
        writer.writerow(row.to_dict() | {"metric": row.input["metric"]})
    write_output("--csv", path, out.getvalue().encode())
