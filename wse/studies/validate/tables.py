"""Tables printed by ``wse validate``, and their number formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from wse.reports.number_text import count, plural
from wse.reports.table import Column, Row, Table, more_rows, number, pair_table
from wse.reports.terminal import INDENT, printable
from wse.studies.validate.predictors.prediction import WRONG_ROW
from wse.studies.validate.result import (
    CALIBRATED,
    Errors,
    GpuErrors,
    ModelCapacity,
    ReasonCount,
    Validation,
    ValidationRow,
    ValidationSummary,
)

Listed = Literal["predicted", "all", "none"]
"""Which rows are listed individually."""
NUMBER_WIDTH: Final = 9
LINE_WIDTH: Final = 5
KERNEL_WIDTH: Final = 17
METRIC_WIDTH: Final = 12
PADDING: Final = 2
CODE: Final = "code of a PE"
ALL: Final = "all"
MAX_REASONS: Final = 6
MAX_WRONG_ROWS: Final = 50


def validation_tables(validation: Validation, listed_rows: Listed, width: int) -> tuple[Table, ...]:
    """Build the tables of files, errors by kind, listed rows, reasons, GPUs and required wafers.

    If measurements are listed, there is also a table of errors by source and kernel.

    Args:
        validation: All measurements with their predictions, and a summary of the errors.
        listed_rows: Which measurements to list individually: ``predicted``, ``all`` or ``none``.
        width: Width of the output in characters.
    """
    rows, summary = validation.rows, validation.summary
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        if listed_rows == "all" or (listed_rows == "predicted" and row.reason is None):
            source = row.input.get("source") or row.input.get("source_url") or ""
            groups.setdefault((row.file, source), []).append(row)
    tables = [_files_table(rows), _kinds_table(summary)]
    for (file, source), group in groups.items():
        tables += _group_tables(group, source, Path(file).name, width)
    wrong_rows = [row for row in rows if (row.reason or "").startswith(WRONG_ROW)]
    if wrong_rows:
        tables.append(_wrong_rows_table(wrong_rows))
    if summary.reasons:
        tables.append(_reasons_table(summary.reasons))
    if listed_rows != "none":
        tables.append(_errors_table(summary, width))
    if summary.gpus:
        groups_of_gpus = [group for group in summary.gpus if listed_rows != "none" or " on " not in group.group]
        tables.append(_gpus_table(groups_of_gpus))
    if validation.capacity:
        tables.append(_capacity_table(validation.capacity))
    rows_hint = ["--rows all: the others too"] if summary.reasons else []
    hints = ["--rows predicted: row by row, and errors by source"] if listed_rows != "predicted" else rows_hint
    return (*tables, pair_table([("", ""), ("more", "; ".join([*hints, "--json: everything"]))]))


def _files_table(rows: Sequence[ValidationRow]) -> Table:
    """Build the table of files, with the numbers of all and of predicted measurements."""
    columns = (
        Column(key="file", title="file", wraps=True),
        number("rows", "rows", width=NUMBER_WIDTH),
        number("predicted", "predicted", width=NUMBER_WIDTH),
    )
    counts, predicted = Counter(row.file for row in rows), Counter(row.file for row in rows if row.reason is None)
    files = [{"file": file, "rows": number, "predicted": predicted[file]} for file, number in counts.items()]
    return Table(columns=columns, rows=files, title="Measurements")


def _group_tables(rows: Sequence[ValidationRow], source: str, file: str, width: int) -> list[Table]:
    """Build up to two tables for a source: predicted measurements, then the rest with reasons.

    Args:
        rows: The measurements of the source.
        source: Name of the source, for the title.
        file: Name of the file with the measurements.
        width: Width of the output in characters.
    """
    predicted = [row for row in rows if row.reason is None]
    unpredicted_rows = [row for row in rows if row.reason is not None]
    room = width - INDENT - LINE_WIDTH - METRIC_WIDTH - 3 * NUMBER_WIDTH - 5 * PADDING
    tables = []
    if predicted:
        columns = [_number("predicted", "predicted", value_text), _number("error_pct", "error", signed_text)]
        if any(row.predicted_plain is not None for row in predicted):
            columns.append(_number("predicted_plain", "no drafts", value_text))
            columns.append(_number("error_plain_pct", "error", signed_text))
        free = room - (len(columns) - 2) * (NUMBER_WIDTH + PADDING)
        tables.append(Table(columns=(*_row_columns(free), *columns), rows=predicted))
    if unpredicted_rows:
        reason = Column(key="reason", title="not predicted", style="bright_black", wraps=True)
        tables.append(Table(columns=(*_row_columns(room), reason), rows=unpredicted_rows))
    first, *further_tables = tables
    return [replace(first, title=printable(source), note=printable(file)), *further_tables]


def _number(key: str, title: str, form: Callable[[Any], str] = count) -> Column:
    return number(key, title, form, width=NUMBER_WIDTH)


def _row_columns(room: int) -> tuple[Column, ...]:
    """Build the columns that describe a measurement: line, measured item, metric and value.

    Args:
        room: Width of the measured-item column, in characters.
    """
    return (
        number("line", "line", str, width=LINE_WIDTH),
        Column(key="what", title="what", cell=lambda row: printable(description(row.input)), width=room),
        Column(key="metric", title="metric", cell=lambda row: printable(row.input["metric"]), width=METRIC_WIDTH),
        number("measured", "measured", cell=_measured_text, width=NUMBER_WIDTH),
    )


def _measured_text(row: ValidationRow) -> str:
    """Format the measured number, or return the published text if it is a range or a formula."""
    return printable(row.input["value"]) if row.measured is None else value_text(row.measured)


def description(row: Mapping[str, str]) -> str:
    """Describe a measurement briefly: PE grid (rows x columns), size, model, name.

    Args:
        row: Text of every column, keyed by column name.
    """
    name = (row.get("algorithm") or row.get("system") or row.get("kernel") or "").split(" (")[0]
    grid = f"{row['grid_h']}x{row['grid_w']}" if row.get("grid_w") and row.get("grid_h") else ""
    product = "x".join(part for part in (row.get("M,N,K") or "").split(",") if part)
    product = product or "x".join(row[c] for c in "MKN" if row.get(c))
    if row.get("block_rows") and row.get("block_cols"):
        grid = f"{row['block_rows']}x{row['block_cols']}"
    size = f"{row['vector_len_bytes']} B" if row.get("vector_len_bytes") else product
    model = row.get("workload") or row.get("model") or ""
    return ", ".join(part for part in (grid, size, model, name) if part)


def _wrong_rows_table(rows: Sequence[ValidationRow]) -> Table:
    """Build the table of rows with wrong or missing cells, with their lines and faults."""
    columns = (
        number("line", "line", str, width=LINE_WIDTH),
        Column(key="reason", cell=lambda row: printable((row.reason or "").removeprefix(WRONG_ROW)), wraps=True),
    )
    first_rows = rows[:MAX_WRONG_ROWS]
    note = ", ".join(dict.fromkeys(Path(row.file).name for row in rows))
    return Table(
        columns=columns,
        rows=first_rows,
        title="Wrong rows",
        note=printable(note),
        footer=more_rows(rows, len(first_rows)),
    )


def _reasons_table(reasons: Sequence[ReasonCount]) -> Table:
    """Build the table of the most frequent reasons why measurements are not predicted."""
    columns = (number("rows"), Column(key="reason", wraps=True))
    rows = plural(sum(reason.rows for reason in reasons), "row")
    top_reasons = reasons[:MAX_REASONS]
    footer = more_rows(reasons, len(top_reasons))
    return Table(columns=columns, rows=top_reasons, title="Not predicted", note=rows, footer=footer)


def _kinds_table(summary: ValidationSummary) -> Table:
    """Build the table of errors by kind of measurement, with a last row for all kinds.

    Its last columns state how often the intervals of predictions contain the measured values.
    """
    kinds = [kind.to_dict() for kind in summary.by_kind if kind.predicted]
    predicted = sum(kind["predicted"] for kind in kinds)
    total = {**replace(summary, predicted=predicted).to_dict(), "kind": ALL, "where": ""}
    columns = (
        Column(key="kind", title="what", wraps=True, min_width=18),
        Column(key="where", title="measured on"),
        number("predicted", "rows"),
        number("fitted", "fitted", cell=lambda row: count(row["fitted"]) if row["fitted"] else ""),
        number("median_abs_error_pct", "median", "{:.1f}".format),
        number("worst_abs_error_pct", "worst", "{:.1f}".format),
        *(number(f"coverage_{percent}", f"{percent}%", lambda part: f"{100 * part:.0f}") for percent in (50, 90)),
    )
    note = "errors and rows inside the 50 % and 90 % intervals, in %, of rows without a fit"
    style: Callable[[Row], str] = lambda row: "bold" if row["kind"] == ALL else ""  # noqa: E731
    return Table(columns=columns, rows=[*kinds, total] if kinds else [], title="Accuracy", note=note, style=style)


def _errors_table(summary: ValidationSummary, width: int) -> Table:
    """Build the table of absolute errors by source and kernel, by method, and overall."""
    room = width - INDENT - KERNEL_WIDTH - 3 * NUMBER_WIDTH - 4 * PADDING
    groups: list[tuple[str, str, Errors]] = [
        (group.source.split(" (")[0].removeprefix("github:"), group.kernel, group)
        for group in summary.by_source_and_kernel
        if group.predicted
    ]
    groups += [(f"all by {method.method}", "", method) for method in summary.by_method]
    groups += [(f"by {method.method}, with the other schedule", "", method) for method in summary.by_other_schedule]
    if summary.median_abs_error_pct is not None:
        predicted = sum(m.predicted for m in summary.by_method if m.method not in CALIBRATED)
        groups.append(("measurements", "", replace(summary, predicted=predicted)))
    columns = (
        Column(key="source", title="source", width=room),
        Column(key="kernel", title="kernel", width=KERNEL_WIDTH),
        _number("predicted", "rows"),
        _number("median_abs_error_pct", "median", "{:.1f} %".format),
        _number("worst_abs_error_pct", "worst", "{:.1f} %".format),
    )
    return Table(
        columns=columns,
        rows=[{**errors.to_dict(), "source": source, "kernel": kernel} for source, kernel, errors in groups],
        title="Errors by source",
        note="absolute errors by source and kernel",
        style=lambda row: "bold" if row["source"] == "measurements" else "",
    )


def _gpus_table(errors: Sequence[GpuErrors]) -> Table:
    """Build the table of mean errors on GPUs, with one row per group of measurements."""
    columns = (
        Column(key="group", title="group", wraps=True),
        number("rows", "rows", width=NUMBER_WIDTH),
        number("mean_abs_error_pct", "mean", "{:.1f} %".format, width=NUMBER_WIDTH),
        number("bias_pct", "bias", "{:+.1f} %".format, width=NUMBER_WIDTH),
        number("bare_roofline_ratio", "roofline", "{:.2f}".format, width=NUMBER_WIDTH),
    )
    return Table(
        columns=columns, rows=errors, title="GPUs", note="mean absolute and signed errors; a bare roofline / measured"
    )


def _capacity_table(capacity: Sequence[ModelCapacity]) -> Table:
    """Build the table of the minimum number of wafers per model, by software profile."""
    profiles = capacity[0].needed
    rows = [
        {"model": model.model, "stated": str(model.wafers), **{n.software: str(n.wafers) for n in model.needed}}
        for model in capacity
    ]
    rows.append({"model": CODE, "stated": "", **{n.software: f"{n.code_bytes_per_pe:,} B" for n in profiles}})
    return Table(
        columns=(
            Column(key="model", title="model", wraps=True),
            *(number(name, name, str) for name in ("stated", *(profile.software for profile in profiles))),
        ),
        rows=rows,
        title="Capacity",
        note="the fewest wafers that hold a model beside code",
        style=lambda row: "bright_black" if row["model"] == CODE else "",
    )


def value_text(value: float) -> str:
    """Format a measured or predicted value.

    Integers, and values of at least 1,000, have no decimals. Values of at least 10 million have an
    exponent. All other values have four significant digits.
    """
    if value >= 10_000_000:
        return f"{value:.3e}"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def signed_text(error_pct: float) -> str:
    """Format an error in percent with its sign."""
    return f"{error_pct:+.1f} %" if abs(error_pct) < 1000 else f"{error_pct:+.0e} %"
