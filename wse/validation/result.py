"""Validation, the result of ``wse validate``: every row with its prediction, errors in short, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from wse.report.result import Doc, Result
from wse.report.table import Column, Row, Table, more_rows, number, pair_table
from wse.report.terminal import INDENT, WIDEST, count, plural, printable

CALIBRATED: Final = ("closed form", "wafer preset", "constant of the window")
"""Methods that check a transcription of a formula, or state a constant that was taken from such rows."""

Listed = Literal["predicted", "all", "none"]
"""Rows that are listed one by one."""
NUMBER_WIDTH: Final = 9
LINE_WIDTH: Final = 5
KERNEL_WIDTH: Final = 17
METRIC_WIDTH: Final = 12
PADDING: Final = 2
CODE: Final = "code of a PE"
ALL: Final = "all"
MOST_REASONS: Final = 6

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class SramFit(Result):
    """Whether a model fits the PEs that one of its layers was timed on."""

    fits: Annotated[bool, Doc("Whether all layers of the model fit the SRAM of the PEs.")]


@dataclass(frozen=True, kw_only=True)
class ValidationRow(Result):
    """A published measurement beside its prediction, or the reason why there is none."""

    file: Annotated[str, Doc("The file as it was named.")]
    line: Annotated[int, Doc("The line that the row begins on, from 1.")]
    input: Annotated[Mapping[str, str], Doc("Every column of the row, as given.")]
    source: Annotated[str, Doc("Where the value was published.")]
    kernel: Annotated[str, Doc("The kernel, or a model, or a system and its phase.")]
    kind: Annotated[str | None, Doc("What was measured, as in `summary.by_kind`; of a row that is predicted.")] = None
    where: Annotated[str | None, Doc("On what; of a row that is predicted.")] = None
    measured: Annotated[
        float | None, Doc("The published value, in the row's own metric; null for a range.", or_null=True)
    ]
    predicted: Annotated[float | None, Doc("The predicted value, in the same metric.", or_null=True)]
    error_pct: Annotated[float | None, Doc("100 (predicted - measured) / measured.", "%", or_null=True)]
    predicted_plain: Annotated[
        float | None, Doc("The prediction without speculative decoding, where the other is with it.")
    ] = None
    error_plain_pct: Annotated[float | None, Doc("Error of the prediction without speculative decoding.", "%")] = None
    predicted_other_schedule: Annotated[
        float | None, Doc("The prediction by the other schedule, of rows by `estimate`: fused or released.")
    ] = None
    error_other_schedule_pct: Annotated[float | None, Doc("Error of the prediction by the other schedule.", "%")] = None
    predicted_free_drafts: Annotated[
        float | None, Doc("The prediction, were drafts free and passes over several tokens as long as over one.")
    ] = None
    bound: Annotated[
        float | None, Doc("The same, with passes that take the bound of a token: no software is faster.")
    ] = None
    reason: Annotated[str | None, Doc("Why the row is not predicted.", or_null=True)]
    method: Annotated[str | None, Doc("Which model predicts the row.", or_null=True)]
    software: Annotated[str | None, Doc("Software profile whose costs are in the prediction.", or_null=True)]
    sram: Annotated[SramFit | None, Doc("Fit of the model, where the row is of one.")] = None


@dataclass(frozen=True, kw_only=True)
class Errors(Result):
    """Absolute errors of some rows."""

    rows: Annotated[int, Doc("Rows in all.")]
    predicted: Annotated[int, Doc("Rows that are predicted.")]
    median_abs_error_pct: Annotated[float | None, Doc("Median of the absolute errors.", "%", or_null=True)]
    worst_abs_error_pct: Annotated[float | None, Doc("Largest absolute error.", "%", or_null=True)]


@dataclass(frozen=True, kw_only=True)
class Method(Result):
    """A method of prediction."""

    method: Annotated[str, Doc("Which model predicts the rows.")]


@dataclass(frozen=True, kw_only=True)
class MethodErrors(Errors, Method):
    """Errors of the rows that one method predicts."""


@dataclass(frozen=True, kw_only=True)
class SourceAndKernel(Result):
    """A kernel in one source."""

    source: Annotated[str, Doc("Where the values were published.")]
    kernel: Annotated[str, Doc("What ran.")]


@dataclass(frozen=True, kw_only=True)
class GroupErrors(Errors, SourceAndKernel):
    """Errors of the rows of one source and kernel."""


@dataclass(frozen=True, kw_only=True)
class KindErrors(Errors):
    """Errors of the rows of one kind of measurements that are no formulas and no constants of the models."""

    kind: Annotated[str, Doc("What was measured; the kernel where it is none that wse knows.")]
    where: Annotated[str, Doc("On what.")]
    fitted: Annotated[str, Doc("On which of such rows constants were fitted; empty where that is not known.")]


@dataclass(frozen=True, kw_only=True)
class ReasonCount(Result):
    """A reason why rows are not predicted."""

    reason: Annotated[str, Doc("The reason.")]
    rows: Annotated[int, Doc("Rows that are not predicted for it.")]


@dataclass(frozen=True, kw_only=True)
class GpuErrors(Result):
    """Errors of rows about GPUs."""

    group: Annotated[str, Doc("What the rows are of.")]
    rows: Annotated[int, Doc("Rows that are predicted.")]
    mean_abs_error_pct: Annotated[float, Doc("Mean of the absolute errors.", "%")]
    bias_pct: Annotated[float, Doc("Mean of the signed errors.", "%")]
    bare_roofline_ratio: Annotated[
        float | None, Doc("Mean of what passes take at stated rates over what was measured; of times between tokens.")
    ] = None


def gpu_errors_table(errors: Sequence[GpuErrors]) -> Table:
    """Errors of rows about GPUs by group."""
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


@dataclass(frozen=True, kw_only=True)
class ValidationSummary(Errors):
    """Errors over all rows but those that state a formula or a constant, with errors by method, source and kernel."""

    by_kind: Annotated[tuple[KindErrors, ...], Doc("Errors by what was measured, and on what.")] = ()
    by_method: Annotated[tuple[MethodErrors, ...], Doc("Errors by method.")]
    by_other_schedule: Annotated[
        tuple[MethodErrors, ...], Doc("Errors of rows by `estimate`, were they predicted by the other schedule.")
    ] = ()
    by_source_and_kernel: Annotated[tuple[GroupErrors, ...], Doc("Errors by source and kernel.")]
    gpus: Annotated[tuple[GpuErrors, ...] | None, Doc("Errors of rows about GPUs by group, where there are any.")] = (
        None
    )
    reasons: Annotated[tuple[ReasonCount, ...], Doc("Reasons why rows are not predicted, the most frequent first.")]


@dataclass(frozen=True, kw_only=True)
class WafersNeeded(Result):
    """The fewest wafers that hold a model beside the code of one software profile."""

    software: Annotated[str, Doc("The software profile.")]
    code_bytes_per_pe: Annotated[int, Doc("Code on every PE.", "bytes")]
    wafers: Annotated[int, Doc("The fewest wafers.")]


@dataclass(frozen=True, kw_only=True)
class ModelCapacity(Result):
    """The wafers that a source states for a model, beside those that it needs by software."""

    model: Annotated[str, Doc("The bundled configuration.")]
    wafer: Annotated[str, Doc("The wafer.")]
    dtype: Annotated[str | None, Doc("How weights are held.", or_null=True)]
    wafers: Annotated[int | None, Doc("Wafers that the source states.", or_null=True)]
    needed: Annotated[tuple[WafersNeeded, ...], Doc("The fewest wafers by software profile.")]


@dataclass(frozen=True, kw_only=True)
class Validation(Result):
    """Every row with its prediction, errors in short, and the wafers that services state beside those they need."""

    rows: Annotated[tuple[ValidationRow, ...], Doc("Every row, in the order of the files.")]
    summary: Annotated[ValidationSummary, Doc("Counts and errors.")]
    capacity: Annotated[
        tuple[ModelCapacity, ...] | None, Doc("Wafers by software, of models for which a row states wafers.")
    ] = None

    def plot(self) -> Figure:
        """Predicted over measured values, and errors, with a colour and a mark for each source and kernel."""
        from wse.validation.plot import figure_of

        return figure_of(self)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Files, reasons, errors and capacity; with ``detail`` the predicted rows."""
        return validation_tables(self, "predicted" if detail else "none", width)


def validation_tables(validation: Validation, listed: Listed, width: int) -> tuple[Table, ...]:
    """Files, errors by kind, the rows that are to be listed, reasons why others are not predicted, and capacity.

    With rows errors by source and kernel are listed too.
    """
    rows, summary = validation.rows, validation.summary
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        if listed == "all" or (listed == "predicted" and row.reason is None):
            source = row.input.get("source") or row.input.get("source_url") or ""
            groups.setdefault((row.file, source), []).append(row)
    tables = [_files_table(rows), _kinds_table(summary)]
    for (file, source), group in groups.items():
        tables += _group_tables(group, source, Path(file).name, width)
    if summary.reasons:
        tables.append(_reasons_table(summary.reasons))
    if listed != "none":
        tables.append(_errors_table(summary, width))
    if summary.gpus:
        by_stack = summary.gpus if listed != "none" else [group for group in summary.gpus if " on " not in group.group]
        tables.append(gpu_errors_table(by_stack))
    if validation.capacity:
        tables.append(_capacity_table(validation.capacity))
    rows_hint = ["--rows all: the others too"] if summary.reasons else []
    hints = ["--rows predicted: row by row, and errors by source"] if listed != "predicted" else rows_hint
    return (*tables, pair_table([("", ""), ("more", "; ".join([*hints, "--json: everything"]))]))


def _files_table(rows: Sequence[ValidationRow]) -> Table:
    """The files, with the number of rows and of predicted rows of each."""
    columns = (
        Column(key="file", title="file", wraps=True),
        number("rows", "rows", width=NUMBER_WIDTH),
        number("predicted", "predicted", width=NUMBER_WIDTH),
    )
    files = []
    for file in dict.fromkeys(row.file for row in rows):
        of_file = [row for row in rows if row.file == file]
        files.append({"file": file, "rows": len(of_file), "predicted": sum(row.reason is None for row in of_file)})
    return Table(columns=columns, rows=files, title="Measurements")


def _group_tables(rows: Sequence[ValidationRow], source: str, file: str, width: int) -> list[Table]:
    """The predicted rows of a source, and those that are not predicted with the reason."""
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
    """The columns that every row has; its description has ``room`` characters."""
    return (
        number("line", "line", str, width=LINE_WIDTH),
        Column(key="what", title="what", cell=lambda row: printable(description(row.input)), width=room),
        Column(key="metric", title="metric", cell=lambda row: printable(row.input["metric"]), width=METRIC_WIDTH),
        number("measured", "measured", cell=_measured_text, width=NUMBER_WIDTH),
    )


def _measured_text(row: ValidationRow) -> str:
    return printable(row.input["value"]) if row.measured is None else value_text(row.measured)


def description(row: Mapping[str, str]) -> str:
    """The description of a row in few words: grid as rows x columns, size, model, algorithm."""
    name = (row.get("algorithm") or row.get("system") or row.get("kernel") or "").split(" (")[0]
    grid = f"{row['grid_h']}x{row['grid_w']}" if row.get("grid_w") and row.get("grid_h") else ""
    product = "x".join(part for part in (row.get("M,N,K") or "").split(",") if part)
    product = product or "x".join(row[c] for c in "MKN" if row.get(c))
    size = f"{row['vector_len_bytes']} B" if row.get("vector_len_bytes") else product
    model = row.get("workload") or row.get("model") or ""
    return ", ".join(part for part in (grid, size, model, name) if part)


def _reasons_table(reasons: Sequence[ReasonCount]) -> Table:
    columns = (number("rows"), Column(key="reason", wraps=True))
    rows = plural(sum(reason.rows for reason in reasons), "row")
    shown = reasons[:MOST_REASONS]
    return Table(columns=columns, rows=shown, title="Not predicted", note=rows, footer=more_rows(reasons, len(shown)))


def _kinds_table(summary: ValidationSummary) -> Table:
    """Absolute errors of each kind of measurements, and of all of them."""
    kinds = [kind.to_dict() for kind in summary.by_kind if kind.predicted]
    predicted = sum(kind["predicted"] for kind in kinds)
    total = {**replace(summary, predicted=predicted).to_dict(), "kind": ALL, "where": "", "fitted": ""}
    columns = (
        Column(key="kind", title="what", wraps=True, min_width=24),
        Column(key="where", title="measured on"),
        number("predicted", "rows"),
        number("median_abs_error_pct", "median", _percent_text),
        number("worst_abs_error_pct", "worst", _percent_text),
        Column(key="fitted", title="fitted on", priority=1),
    )
    note = "absolute errors; the last column has the rows that constants were fitted on"
    style: Callable[[Row], str] = lambda row: "bold" if row["kind"] == ALL else ""  # noqa: E731
    return Table(columns=columns, rows=[*kinds, total] if kinds else [], title="Accuracy", note=note, style=style)


def _percent_text(error: float) -> str:
    return f"{error:.1f} %"


def _errors_table(summary: ValidationSummary, width: int) -> Table:
    """Absolute errors of each source and kernel, of each method, and of all measurements."""
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
        _number("median_abs_error_pct", "median", _percent_text),
        _number("worst_abs_error_pct", "worst", _percent_text),
    )
    return Table(
        columns=columns,
        rows=[{**errors.to_dict(), "source": source, "kernel": kernel} for source, kernel, errors in groups],
        title="Errors by source",
        note="absolute errors by source and kernel",
        style=lambda row: "bold" if row["source"] == "measurements" else "",
    )


def _capacity_table(capacity: Sequence[ModelCapacity]) -> Table:
    """The fewest wafers that hold each model beside the code of each software profile."""
    profiles = capacity[0].needed
    rows = [
        {"model": model.model, "stated": str(model.wafers), **{n.software: str(n.wafers) for n in model.needed}}
        for model in capacity
    ]
    rows.append({"model": CODE, "stated": "", **{n.software: f"{n.code_bytes_per_pe:,} B" for n in profiles}})
    return Table(
        columns=(
            Column(key="model", title="model", wraps=True),
            *(number(name, name, str) for name in ("stated", *(needed.software for needed in profiles))),
        ),
        rows=rows,
        title="Capacity",
        note="the fewest wafers that hold a model beside code",
        style=lambda row: "bright_black" if row["model"] == CODE else "",
    )


def value_text(value: float | None) -> str:
    """A measured or predicted value with the figures of its fraction that count; empty where there is none."""
    if value is None:
        return ""
    if value >= 10_000_000:
        return f"{value:.3e}"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def signed_text(error_pct: float | None) -> str:
    """An error with its sign; empty where the measured value is zero."""
    if error_pct is None:
        return ""
    return f"{error_pct:+.1f} %" if abs(error_pct) < 1000 else f"{error_pct:+.0e} %"
