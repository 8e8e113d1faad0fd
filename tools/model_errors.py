"""Write the model errors that come with wse: how far predictions are from measurements that nothing was fitted on.

    python tools/model_errors.py ../shared/reference/wse3_qwen3.csv

The argument is a file of inference measurements, which does not come with wse. The other measurements are the bundled
ones. Each row of ``wse/data/model_errors.csv`` is a measurement of a model on wafers: the ratio of its measured to its
predicted time. Rows that restate another row of the same source are left out.

    decode   passes and forced tokens of Qwen3 at EPCC, and rates of services after their launch
    prefill  prompts at EPCC, WaferLLM's prompts on WSE-2, and a service's time to first token

Decode of WaferLLM and the speeds at the launch of services are not used: constants were fitted on them.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from wse.studies.estimate.ranges.model_error import FILE
from wse.studies.validate.coverage import EPCC
from wse.studies.validate.parts import CALIBRATED, ValidationRow
from wse.studies.validate.study import BUNDLED, validate

COLUMNS: Final = ("kind", "group", "source", "file", "row", "time_ratio")
RATE_UNITS: Final = ("tok/s", "tokens_per_s", "tok_s")
BUNDLED_FILES: Final = ("public_tokens_per_s.csv", "waferllm_measured.csv")


def errors_of(rows: Iterable[ValidationRow]) -> list[dict[str, str]]:
    """Return the rows of the file of model errors, in the order of the measurements."""
    points, seen = [], set()
    for row in rows:
        kind_and_group = _kind_and_group(row)
        if kind_and_group is None or row.predicted is None or row.measured is None or row.method in CALIBRATED:
            continue
        kind, group = kind_and_group
        same = (group, row.measured, row.predicted)
        if same in seen:
            continue
        seen.add(same)
        unit = row.input.get("unit") or row.input.get("metric", "")
        is_rate = any(text in unit for text in RATE_UNITS)
        ratio = row.predicted / row.measured if is_rate else row.measured / row.predicted
        place = {"file": Path(row.file).name, "row": row.input.get("id") or str(row.line)}
        source = EPCC if group == "epcc" else row.source
        points.append({"kind": kind, "group": group, "source": source, **place, "time_ratio": f"{ratio:.4f}"})
    return points


def text_of(points: Sequence[dict[str, str]]) -> str:
    """Return the content of the file of model errors."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return out.getvalue()


def _kind_and_group(row: ValidationRow) -> tuple[str, str] | None:
    """Return the kind of prediction that a row tests, and the group of measurements that it belongs to."""
    if row.software == "epcc":
        return {
            "decode steps": ("decode", "epcc"),
            "forced tokens": ("decode", "epcc"),
            "prefill": ("prefill", "epcc"),
        }.get(row.kind or "")
    if row.kind == "services" and "later" in (row.where or ""):
        return ("prefill" if row.input["metric"] == "ttft_s" else "decode", "services")
    if row.kind == "prefill of 8B and 72B":
        return "prefill", "waferllm"
    return None


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inference", type=Path)
    files = [parser.parse_args().inference, *(BUNDLED / name for name in BUNDLED_FILES)]
    FILE.write_text(text_of(errors_of(row for file in files for row in validate([file]).rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
