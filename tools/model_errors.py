"""Write the model errors of wse: ratios of measured to predicted times, for measurements that no constant is fitted to.

    python tools/model_errors.py ../shared/reference/wse3_qwen3.csv

The argument is a file of inference measurements, which is not bundled with wse. All other measurements are bundled.
Each row of ``wse/data/model_errors.csv`` has the ratio of the measured to the predicted time of a model on wafers or
GPUs. Rows that restate another row are left out. Of the rows about one run on GPUs, only the first is used. The kinds
of errors are:

    decode       passes and forced tokens of Qwen3 at EPCC, and rates of services after their launch
    prefill      prompts at EPCC, prompts of WaferLLM on WSE-2, and the time to first token of a service
    gpu_dense    times and rates of dense models on GPUs
    gpu_experts  times and rates of mixtures of experts on GPUs

Decode of WaferLLM and the speeds at the launch of services are not used, because constants are fitted to them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from wse.reports.rows_csv import exact_csv
from wse.studies.estimate.ranges.model_error import FILE
from wse.studies.validate.coverage import error_kind_of, publisher_of
from wse.studies.validate.result import ValidationRow
from wse.studies.validate.study import BUNDLED, validate

COLUMNS: Final = ("kind", "software", "publisher", "source", "file", "row", "time_ratio")
RATE_UNITS: Final = ("tok/s", "tokens_per_s", "tok_s")
FIGURE: Final = ("metric", "value", "note")
"""Columns in which the rows of one run on GPUs differ."""
BUNDLED_FILES: Final = ("public_tokens_per_s.csv", "waferllm_measured.csv", "gpu_baselines.csv")


def errors_of(rows: Iterable[ValidationRow]) -> list[dict[str, str]]:
    """Return the rows of the file of model errors, in the order of the measurements."""
    points, seen = [], set()
    for row in rows:
        kind = error_kind_of(row.kind or "", row.input.get("metric", ""))
        if kind is None or not row.predicted or not row.measured or row.fitted or "launch" in (row.where or ""):
            continue
        run = _run(kind, row)
        if run in seen:
            continue
        seen.add(run)
        points.append(
            {
                "kind": kind,
                "software": row.software or "",
                "publisher": publisher_of(row.source, row.software or ""),
                "source": row.source,
                "file": Path(row.file).name,
                "row": row.input.get("id") or str(row.line),
                "time_ratio": f"{_time_ratio(row):.4f}",
            }
        )
    return points


def _run(kind: str, row: ValidationRow) -> tuple[object, ...]:
    """Return a key that is equal for rows that restate each other, or that state figures of the same run on GPUs."""
    if kind.startswith("gpu"):
        return kind, *(text for column, text in row.input.items() if column not in FIGURE)
    return kind, row.software, row.measured, row.predicted


def _time_ratio(row: ValidationRow) -> float:
    """Return the ratio of the measured to the predicted time, also if the row states a rate."""
    assert row.predicted
    assert row.measured
    unit = row.input.get("unit") or row.input.get("metric", "")
    is_rate = any(text in unit for text in RATE_UNITS)
    return row.predicted / row.measured if is_rate else row.measured / row.predicted


def main() -> None:
    """Write wse/data/model_errors.csv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inference", type=Path)
    files = [parser.parse_args().inference, *(BUNDLED / name for name in BUNDLED_FILES)]
    points = errors_of(row for file in files for row in validate([file]).rows)
    FILE.write_text(exact_csv(points, COLUMNS), encoding="utf-8")


if __name__ == "__main__":
    main()
