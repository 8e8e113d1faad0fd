"""Writer of docs/validation.md, the page with the results of `wse validate`, and of its plot."""

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
    """Write the page to ``path``, and its plot to the same path with the suffix ``.png``.

    Raises:
        BadInput: One of the two files cannot be written.
    """
    from wse.reports.figure import png_of

    plot = path.with_suffix(".png")
    write_output("--page", path, _page(validation, plot.name).encode())
    write_output("--page", plot, png_of(figure_of(validation), PLOT_DPI))


def _page(validation: Validation, plot: str) -> str:
    """Return the text of the page: the prose in ``page.md.j2`` with the tables of a validation.

    Args:
        validation: The result.
        plot: File name of the plot.
    """
    summary = validation.summary
    methods = [(errors.method, errors) for errors in summary.by_method]
    methods += [(f"{errors.method}, with the other schedule", errors) for errors in summary.by_other_schedule]
    text = (files("wse.studies.validate") / "page.md.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(text).render(
        plot=plot,
        counted=f"{plural(summary.rows, 'row')}, {count(summary.predicted)} predicted. {_errors_of_all(summary)}",
        kinds=_table(
            ("what", "measured on", "rows", "median", "worst", "fitted on"),
            [(kind.kind, kind.where, count(kind.predicted), *_errors(kind), kind.fitted) for kind in summary.by_kind],
        ),
        methods=_table(
            ("method", "rows", "median", "worst"),
            [(name, count(errors.rows), *_errors(errors)) for name, errors in methods],
        ),
        groups=_table(
            ("source", "kernel", "predicted", "median", "worst"),
            [
                (group.source, group.kernel, f"{count(group.predicted)} of {count(group.rows)}", *_errors(group))
                for group in summary.by_source_and_kernel
                if group.predicted
            ],
        ),
        gpus=_gpus(summary.gpus or ()),
        capacity=_capacity(validation.capacity or ()),
        bounds=_bounds(validation.rows),
        reasons=_table(("rows", "reason"), [(count(reason.rows), reason.reason) for reason in summary.reasons]),
        rows="\n\n".join(_rows(validation.rows)),
        columns="\n\n".join(f"- {', '.join(f'`{column}`' for column in columns)}" for columns in TABLES.values()),
    )


def _gpus(errors: Sequence[GpuErrors]) -> str:
    """Return a table of the errors on GPUs by group, or "" if there are none."""
    rows = [
        (group.group, count(group.rows), f"{group.mean_abs_error_pct:.1f} %", f"{group.bias_pct:+.1f} %")
        for group in errors
    ]
    return _table(("group", "rows", "mean absolute error", "bias"), rows) if rows else ""


def _capacity(capacity: Sequence[ModelCapacity]) -> str:
    """Return a table of the wafers that models need with each profile, or "" if there are none."""
    if not capacity:
        return ""
    profiles = [f"{profile.software}: {profile.code_bytes_per_pe:,} B" for profile in capacity[0].needed]
    rows = [
        (model.model, model.dtype, model.wafers, *(profile.wafers for profile in model.needed)) for model in capacity
    ]
    return _table(("model", "type", "stated", *profiles), rows)


def _bounds(rows: Sequence[ValidationRow]) -> str:
    """Return a table of published token rates with the rate that no software can exceed, or ""."""
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
    """Return the median and the largest absolute error as texts, empty if nothing is predicted."""
    median, max_error = group.median_abs_error_pct, group.worst_abs_error_pct
    return ("", "") if median is None else (f"{median:.1f} %", f"{max_error:.1f} %")


def _errors_of_all(summary: Errors) -> str:
    """Return a sentence on the errors over all measurements."""
    median, max_error = _errors(summary)
    return f"The median error is {median} and the maximum {max_error}."


def _rows(rows: Sequence[ValidationRow]) -> list[str]:
    """Return tables of all predicted rows: a foldable section for each source, kernel and file."""
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
    """Return the text of a cell with markup escaped, cut to three times LONGEST_CELL characters."""
    text = printable(text if len(text) <= LONGEST_CELL * 3 else text[: LONGEST_CELL * 3] + "…")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")
