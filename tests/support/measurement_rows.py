"""Rows of the measurement tables `microbench` and `inference`, and CSV files and measurements made from rows."""

import csv
import io
from functools import partial

from wse.studies.validate.measured.measurements import TABLES, Measurement, parse

GOOD = {
    "source": "a log",
    "kernel": "reduce",
    "algorithm": "chain",
    "grid_w": "512",
    "grid_h": "1",
    "vector_len_bytes": "4",
    "dtype": "f32",
    "metric": "cycles",
    "value": "3128",
    "value_kind": "exact",
    "platform": "WSE-2 SDK fabric simulator",
}

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


def file_of(*rows: dict[str, str], table: str = "microbench") -> str:
    """Return the text of a CSV file of a table with these rows; missing cells are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, TABLES[table], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


inference_file = partial(file_of, table="inference")


def rows_of(*rows: dict[str, str]) -> list[Measurement]:
    """Return measurements parsed from rows of `inference`; cells that are not given are those of `ROW`."""
    cells = ({**ROW, "id": f"A-{i}", **row} for i, row in enumerate(rows, 1))
    return list(parse(inference_file(*cells), "m.csv"))
