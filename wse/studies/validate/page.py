"""docs/validation.md: the results of `wse validate` as a page, and the plot beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wse.reports.markdown import markdown_table
from wse.reports.output_file import write_output
from wse.reports.terminal import count, plural, printable
from wse.studies.validate.measured.measurements import TABLES
from wse.studies.validate.parts import Errors, GpuErrors, GroupErrors, ModelCapacity, ValidationRow
from wse.studies.validate.plot import figure_of
from wse.studies.validate.result import Validation
from wse.studies.validate.tables import description, signed_text, value_text
from wse.studies.validate.text import BOUNDED, CALIBRATED, GPUS, NOT_CAPTURED, PREDICTED

LONGEST_CELL: Final = 60
PLOT_DPI: Final = 130


def write_page(validation: Validation, path: Path) -> None:
    """Write the page to ``path``, and its plot to the same name with ``.png``.

    Raises:
        BadInput: one of the two cannot be written.
    """
    from wse.reports.figure import png_of

    plot = path.with_suffix(".png")
    write_output("--page", path, _page(validation, plot.name).encode())
    write_output("--page", plot, png_of(figure_of(validation), PLOT_DPI))


def _page(validation: Validation, plot: str) -> str:
    summary = validation.summary
    parts = [
        "# Validation",
        "Predictions of this emulator against published measurements, made by `wse validate --page "
        "docs/validation.md`. An error is 100 (predicted - measured) / measured in the row's own metric: cycles where "
        "the source gives cycles. Every row of every file is counted below, with its prediction or with the reason "
        "why there is none.",
        f"{plural(summary.rows, 'row')}, {count(summary.predicted)} predicted"
        + _errors(
            ". Median error {median}, worst {worst}, of the rows that are measurements and not formulas or", summary
        )
        + " constants of the models.",
        "## Errors by kind of measurement",
        _table(
            ("what", "measured on", "rows", "median", "worst", "fitted on"),
            [
                (k.kind, k.where, count(k.predicted), *_errors("{median}|{worst}", k).split("|"), k.fitted)
                for k in summary.by_kind
            ],
        ),
        "## Errors by method",
        _table(
            ("method", "rows", "median", "worst"),
            [
                (name, count(m.rows), *_errors("{median}|{worst}", m).split("|"))
                for name, m in [
                    *((m.method, m) for m in summary.by_method),
                    *((f"{m.method}, with the other schedule", m) for m in summary.by_other_schedule),
                ]
            ],
        ),
        f"![Errors of every row, a line for each kernel]({plot})",
        "A point is a row, the bar the median of a line's signed errors, the dashed lines are ten percent. The numbers "
        "beside a line are of absolute errors. Rows that state a formula or a constant of the models are on no line.",
        "## Errors by source and kernel",
        _groups(summary.by_source_and_kernel),
        *_gpus(summary.gpus or ()),
        *_capacity(validation.capacity or ()),
        *_bounds(validation.rows),
        "## What is calibrated",
        CALIBRATED,
        "## What is predicted",
        PREDICTED,
        "## What the models do not capture",
        NOT_CAPTURED,
        "## Rows that are not predicted",
        _table(("rows", "reason"), [(count(r.rows), r.reason) for r in summary.reasons]),
        "## Rows that are predicted",
        *_rows(validation.rows),
        "## Columns of a file for `wse validate --data`",
        "A CSV file in UTF-8 with the columns of one of these tables, in any order. Cells may be empty, but for "
        "`metric`, which names a unit, and `value`, a number or a range such as `10-20`. `grid_w` x `grid_h` are "
        "columns and rows of PEs.",
        *(f"- {', '.join(f'`{column}`' for column in columns)}" for columns in TABLES.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _gpus(errors: Sequence[GpuErrors]) -> list[str]:
    """Errors of rows about GPUs by group."""
    if not errors:
        return []
    rows = [(g.group, count(g.rows), f"{g.mean_abs_error_pct:.1f} %", f"{g.bias_pct:+.1f} %") for g in errors]
    return ["## GPUs", GPUS, _table(("group", "rows", "mean absolute error", "bias"), rows)]


def _capacity(capacity: Sequence[ModelCapacity]) -> list[str]:
    """The wafers that models need beside the code of each software."""
    if not capacity:
        return []
    softwares = capacity[0].needed
    header = ("model", "type", "stated", *(f"{s.software}: {s.code_bytes_per_pe:,} B" for s in softwares))
    rows = [(c.model, c.dtype, c.wafers, *(n.wafers for n in c.needed)) for c in capacity]
    return [
        "## Capacity",
        "Wafers that rows state for a model, and the fewest that hold it with the cache of a prompt and its answer "
        "beside the code of each software profile, by its bytes on every PE.",
        _table(header, rows),
    ]


def _bounds(rows: Sequence[ValidationRow]) -> list[str]:
    """Published rates of tokens beside what no software beats."""
    bounded = [row for row in rows if row.bound and row.measured and row.predicted]
    if not bounded:
        return []
    header = ("line", "what", "measured", "predicted", "drafts free", "bound", "measured / bound", "by")
    cells = [
        (
            row.line,
            description(row.input),
            value_text(row.measured),
            value_text(row.predicted),
            value_text(row.predicted_free_drafts),
            value_text(row.bound),
            f"{(row.measured or 0) / (row.bound or 1):.2f}",
            row.method,
        )
        for row in bounded
    ]
    return ["## Services and their bounds", BOUNDED, _table(header, cells)]


def _groups(groups: Sequence[GroupErrors]) -> str:
    rows = [
        (
            g.source,
            g.kernel,
            f"{count(g.predicted)} of {count(g.rows)}",
            *_errors("{median}|{worst}", g).split("|"),
        )
        for g in groups
        if g.predicted
    ]
    return _table(("source", "kernel", "predicted", "median", "worst"), rows)


def _errors(form: str, group: Errors) -> str:
    median, worst = group.median_abs_error_pct, group.worst_abs_error_pct
    if median is None:
        return form.format(median="", worst="")
    return form.format(median=f"{median:.1f} %", worst=f"{worst:.1f} %")


def _rows(rows: Sequence[ValidationRow]) -> list[str]:
    """Folded tables of rows, one for each source and kernel."""
    groups: dict[tuple[str, str, str], list[ValidationRow]] = {}
    for row in rows:
        if row.reason is None:
            groups.setdefault((row.source, row.kernel, Path(row.file).name), []).append(row)
    parts = []
    for (source, kernel, file), group in groups.items():
        with_drafts = any(row.predicted_plain is not None for row in group)
        cells = [
            (
                row.line,
                description(row.input),
                row.input["metric"],
                value_text(row.measured),
                value_text(row.predicted),
                signed_text(row.error_pct),
                *((value_text(row.predicted_plain), signed_text(row.error_plain_pct)) if with_drafts else ()),
                ", ".join(part for part in (row.method, row.software) if part),
            )
            for row in group
        ]
        drafts = ("without drafts", "error") if with_drafts else ()
        table = _table(("line", "what", "metric", "measured", "predicted", "error", *drafts, "by"), cells)
        name = _cell(f"{source}: {kernel} ({len(group)} rows of {file})")
        parts.append(f"<details><summary>{name}</summary>\n\n{table}\n\n</details>")
    return parts


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return "\n".join(markdown_table(map(_cell, header), ([_cell(str(cell)) for cell in row] for row in rows)))


def _cell(text: str) -> str:
    """Text from a file that is neither a link nor a tag."""
    text = printable(text if len(text) <= LONGEST_CELL * 3 else text[: LONGEST_CELL * 3] + "…")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")
