"""Rows of the measurement table `inference`, and CSV files and measurements made from them."""

import csv
import io

from wse.studies.validate.measured.measurements import TABLES, Measurement, parse

ROW = {
    "id": "A-1",
    "model": "qwen3-4b",
    "phase": "decode",
    "machine": "WSE-3 silicon",
    "wafers": "1",
    "block_rows": "256",
    "block_cols": "256",
    "n_blocks": "8",
    "n_stages": "4",
    "layers_per_stage": "9",
    "batch": "1",
    "context_min": "4096",
    "context_max": "8192",
    "context_mean": "6144",
    "settings": "TOP_K 20",
    "metric": "cycles per decode step",
    "value": "800000",
    "unit": "cycles",
    "kind": "measured",
    "group": "A",
}


def file_of(*rows: dict[str, str]) -> str:
    """Return a CSV file of the table with these rows; missing cells are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, TABLES["inference"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def rows_of(*rows: dict[str, str]) -> list[Measurement]:
    """Return measurements parsed from rows; cells that are not given are those of `ROW`."""
    return list(parse(file_of(*({**ROW, "id": f"A-{i}", **row} for i, row in enumerate(rows, 1))), "m.csv"))
