"""docs/validation.md: the results of `wse validate` as a page, and the plot beside it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2

from wse.reports.markdown import markdown_table
from wse.reports.output_file import write_output
from wse.reports.terminal import count, plural, printable
from wse.studies.validate.measured.measurements import TABLES
from wse.studies.validate.parts import Errors, GpuErrors, ModelCapacity, ValidationRow
from wse.studies.validate.plot import figure_of
from wse.studies.validate.result import Validation
from wse.studies.validate.tables import description, signed_text, value_text

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
    """Return the page, whose prose is that of ``page.md.j2``."""
    summary = validation.summary
    methods = [(one.method, one) for one in summary.by_method]
    methods += [(f"{one.method}, with the other schedule", one) for one in summary.by_other_schedule]
    text = (files("wse.studies.validate") / "page.md.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(text).render(
        plot=plot,
        counted=f"{plural(summary.rows, 'row')}, {count(summary.predicted)} predicted{_errors_of_all(summary)}",
        kinds=_table(
            ("what", "measured on", "rows", "median", "worst", "fitted on"),
            [(one.kind, one.where, count(one.predicted), *_errors(one), one.fitted) for one in summary.by_kind],
        ),
        methods=_table(
            ("method", "rows", "median", "worst"), [(name, count(one.rows), *_errors(one)) for name, one in methods]
        ),
        groups=_table(
            ("source", "kernel", "predicted", "median", "worst"),
            [
                (one.source, one.kernel, f"{count(one.predicted)} of {count(one.rows)}", *_errors(one))
                for one in summary.by_source_and_kernel
                if one.predicted
            ],
        ),
        gpus=_gpus(summary.gpus or ()),
        capacity=_capacity(validation.capacity or ()),
        bounds=_bounds(validation.rows),
        reasons=_table(("rows", "reason"), [(count(one.rows), one.reason) for one in summary.reasons]),
        rows="\n\n".join(_rows(validation.rows)),
        columns="\n\n".join(f"- {', '.join(f'`{column}`' for column in columns)}" for columns in TABLES.values()),
    )


def _gpus(errors: Sequence[GpuErrors]) -> str:
    """Return errors of rows about GPUs by group."""
    rows = [(one.group, count(one.rows), f"{one.mean_abs_error_pct:.1f} %", f"{one.bias_pct:+.1f} %") for one in errors]
    return _table(("group", "rows", "mean absolute error", "bias"), rows) if rows else ""


def _capacity(capacity: Sequence[ModelCapacity]) -> str:
    """Return the wafers that models need beside the code of each software."""
    softwares = [f"{one.software}: {one.code_bytes_per_pe:,} B" for one in capacity[0].needed] if capacity else []
    rows = [(one.model, one.dtype, one.wafers, *(needed.wafers for needed in one.needed)) for one in capacity]
    return _table(("model", "type", "stated", *softwares), rows) if rows else ""


def _bounds(rows: Sequence[ValidationRow]) -> str:
    """Return published rates of tokens beside what no software beats."""
    header = ("line", "what", "measured", "predicted", "drafts free", "bound", "measured / bound", "by")
    cells = [
        (
            row.line,
            description(row.input),
            *map(value_text, (row.measured, row.predicted, row.predicted_free_drafts, row.bound)),
            f"{row.measured / row.bound:.2f}",
            row.method,
        )
        for row in rows
        if row.bound and row.measured and row.predicted
    ]
    return _table(header, cells) if cells else ""


def _errors(group: Errors) -> tuple[str, str]:
    """Return the median and the worst error of some rows."""
    median, worst = group.median_abs_error_pct, group.worst_abs_error_pct
    return ("", "") if median is None else (f"{median:.1f} %", f"{worst:.1f} %")


def _errors_of_all(summary: Errors) -> str:
    median, worst = _errors(summary)
    return f". Median error {median}, worst {worst}, of the rows that are measurements and not formulas or"


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
    """Return the text from a file that is neither a link nor a tag."""
    text = printable(text if len(text) <= LONGEST_CELL * 3 else text[: LONGEST_CELL * 3] + "…")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")
