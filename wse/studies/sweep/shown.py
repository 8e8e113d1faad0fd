"""Printed rows of a sweep: the axes, and twelve columns by default.

A column is a table column or a short name: ``dtype``, ``prompt``, ``new``, ``wafers``, ``users``,
``replicas``, ``ttft``, ``user``, ``low``, ``high``, ``throughput``, ``fits`` or
``cost``. ``low`` and ``high`` are the ends of the 90 % interval of ``user``. Latencies, throughput
and cost belong to the same operating point.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from wse.errors import BadInput, UnknownName
from wse.reports.number_text import seconds, three_figures
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import price_source, price_text
from wse.reports.table import Column, number
from wse.reports.terminal import printable
from wse.studies.estimate.gpus.result import GpuEstimateResult
from wse.studies.estimate.result import EstimateResult
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.row import Cell, JournalEntry, Row, can_have_column, column, columns_of

SHORT: Final[dict[str, Column]] = {
    column.key: column
    for column in (
        number("dtype", "type", printable, doc="element type of the weights", priority=6),
        number("prompt", "prompt", doc="tokens of a prompt", priority=3),
        number("new", "new", doc="output tokens of a request", priority=3),
        number("wafers", "wafers", best="smallest", doc="wafers of the model (not of a draft model)", priority=2),
        number("users", "users", doc="users, each with a request in flight or pausing", priority=4),
        number("replicas", "replicas", best="smallest", doc="machines that share the users", priority=6),
        number("ttft", "TTFT", seconds, best="smallest", doc="mean time to first token", priority=5),
        number("user", "tok/s/user", best="largest", doc="output tokens per second of each user after the first"),
        number("low", "low", doc="low end of the 90 % interval of tok/s/user", priority=2),
        number("high", "high", doc="high end of the 90 % interval of tok/s/user", priority=2),
        number("throughput", "tok/s", best="largest", doc="output tokens per second of all users", priority=1),
        number("fits", "fits", lambda fits: "yes" if fits else "no", doc="whether SRAM holds the model", priority=7),
        number(
            "cost",
            "USD/Mtok",
            three_figures,
            best="smallest",
            doc="price of a million output tokens, prompts included",
            priority=3,
        ),
    )
}
"""Printed columns with a short name, by this name."""
SOURCES: Final = {
    "dtype": ("model_dtype",),
    "prompt": ("serving_prompt_tokens",),
    "new": ("serving_new_tokens",),
    "wafers": ("system_wafers",),
    "users": ("serving_users", "options_batch"),
    "replicas": ("serving_replicas",),
    "ttft": ("serving_ttft_s", "latency_ttft_s"),
    "user": ("serving_tokens_per_s_per_user", "decode_tokens_per_s_per_user"),
    "low": ("ranges_serving_tokens_per_s_per_user_low",),
    "high": ("ranges_serving_tokens_per_s_per_user_high",),
    "throughput": ("serving_tokens_per_s", "decode_tokens_per_s"),
    "fits": ("sram_fits",),
    "cost": ("cost_usd_per_million_tokens",),
}
"""Columns of the written table from which a printed column is taken: the first one that the table has."""
DEFAULT_COLUMNS: Final = tuple(name for name in SHORT if name != "replicas")
PRICES: Final = {"cost_wafer_usd_per_hour": "wafer_name", "cost_gpu_usd_per_hour": "gpu_name"}
"""Price columns, with the columns that name the priced machine."""
DOWN: Final = ":down"
TOP: Final = 20
MAX_SHOWN: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """Choice and order of the columns and rows of a sweep that are printed.

    Attributes:
        columns: Names of the columns that are printed in addition to the axes of the sweep.
        sort: Column to sort by, best value first. In a column without a best value, the smallest
            value comes first. The suffix ``:down`` requests that the largest value comes first.
            None keeps grid order if all rows are printed, and sorts by speed per user otherwise.
        top: Maximum number of rows.
    """

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    sort: str | None = None
    top: int = TOP


class SweepRow(Result):
    """A row of the printed table of a sweep: a setting with its values, or with an error."""

    setting: Annotated[Mapping[str, str | float], Doc("value on each axis that has several values")]
    values: Annotated[Mapping[str, str | float | bool], Doc("values of the printed columns, if the setting has them")]
    error: Annotated[str | None, Doc("why there is no answer")] = None


def sweep_view(columns: str | Sequence[str] | None, sort: str | None, top: int | None) -> SweepView:
    """Return the columns, order and number of rows requested on the command line.

    Args:
        columns: Option ``--columns``: a list of names, or a comma-separated string. None selects
            the default.
        sort: Option ``--sort``: column to sort by. The suffix ``:down`` sorts in descending order.
        top: Option ``--top``: maximum number of rows.
    """
    parts = columns.split(",") if isinstance(columns, str) else columns
    names = DEFAULT_COLUMNS if parts is None else tuple(part.strip() for part in parts if part.strip())
    return SweepView(columns=names, sort=sort, top=TOP if top is None else top)


def check_view(view: SweepView) -> None:
    """Check the columns and the number of rows to print, before any result is known.

    Raises:
        BadInput: There are no columns, a column is repeated, or the number of rows is out of range.
    """
    if not view.columns or len(set(view.columns)) < len(view.columns):
        raise BadInput(
            f"--columns {','.join(view.columns)!r}: give names with commas between, each once, such as user,cost"
        )
    if not 1 <= view.top <= MAX_SHOWN:
        raise BadInput(f"--top {view.top}: give a number of rows from 1 to {MAX_SHOWN:,}")


def check_columns(view: SweepView, grid: Grid, row: Row | None = None) -> None:
    """Check that each column to print or sort by is a short name, an axis or a table column.

    Args:
        view: The columns.
        grid: The settings, whose axes are columns too.
        row: Row of any setting that has a result. Before there is one, a table column is any column
            that an estimate result can have.

    Raises:
        UnknownName: A column does not exist.
    """
    results = (EstimateResult, GpuEstimateResult)
    axes = {column(axis.name) for axis in grid.axes}
    requested_columns = [("--columns", name) for name in view.columns]
    requested_columns += [] if view.sort is None else [("--sort", view.sort.removesuffix(DOWN))]
    for option, name in requested_columns:
        is_known = name in SHORT or column(name) in axes
        if row is None:
            is_known = is_known or any(can_have_column(kind, column(name)) for kind in results)
        elif column(name) in row:
            is_known = True
        if not is_known:
            columns = row or {source for kind in results for source in columns_of(kind)}
            near = difflib.get_close_matches(column(name), sorted(columns), n=5)
            raise UnknownName("column", name, {*SHORT, *axes, *near}, place=option)


def shown_rows(grid: Grid, entries: Iterable[JournalEntry], view: SweepView) -> tuple[SweepRow, ...]:
    """Return the sorted rows to print. Settings without a value in the sort column come last.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        entries: The results, in grid order.
        view: Columns, order and maximum number of rows.
    """
    sort = view.sort or ("user" if len(grid) > view.top else None)
    rows = ((_rank(sort, grid, entry), entry.setting, _row(grid, entry, view)) for entry in entries)
    return tuple(row for _, _, row in heapq.nsmallest(view.top, rows, key=lambda keyed_row: keyed_row[:2]))


def best_values(grid: Grid, entries: Iterable[JournalEntry], columns: Iterable[str]) -> dict[str, float]:
    """Return the best value of each column over all settings, printed or not.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        entries: The results of all settings.
        columns: Printed columns. Those without a best value are left out.
    """
    kinds = {name: SHORT[name].best for name in columns if name in SHORT and SHORT[name].best}
    best: dict[str, float] = {}
    for entry in entries:
        for name, kind in kinds.items():
            value = value_in(grid, entry, name)
            if isinstance(value, int | float):
                best[name] = (max if kind == "largest" else min)(value, best.get(name, value))
    return best


def varied_axes(grid: Grid) -> list[str]:
    """Return the names of the axes with several values."""
    return [axis.name for axis in grid.axes if len(axis.values) > 1]


def value_in(grid: Grid, entry: JournalEntry, name: str) -> Cell:
    """Return the cell of a table for one setting and one column; None if the cell is empty.

    Args:
        grid: All settings of the sweep.
        entry: Result of the setting, which has the row of the table.
        name: Column, given by a short name such as ``cost``, an axis, or a column of the table.
    """
    if name in SHORT:
        return next((entry.row[key] for key in SOURCES[name] if entry.row.get(key) is not None), None)
    axes = {column(axis): value for axis, value in grid.setting(entry.setting).items()}
    return axes.get(column(name), entry.row.get(column(name)))


def prices_of(entries: Iterable[JournalEntry]) -> tuple[str, ...]:
    """Return the distinct prices on which the costs of a sweep are based.

    Each price is formatted with its range and source.
    """
    rows = (entry.row for entry in entries)
    found = (_price(row, key) for row in rows for key in PRICES if row.get(key) is not None)
    return tuple(dict.fromkeys(found))


def _price(row: Row, key: str) -> str:
    low, price, high = (float(row[f"{key}{end}"] or 0) for end in ("_low", "", "_high"))
    return price_text((low, price, high), str(row[PRICES[key]]), price_source(str(row["cost_assumptions"])))


def _rank(sort: str | None, grid: Grid, entry: JournalEntry) -> tuple[bool, bool, Any]:
    """Return the sort key of a setting. Settings without a value in the sort column come last.

    Args:
        sort: Column to sort by; the suffix ``:down`` puts the largest value first. None keeps grid
            order.
        grid: Axes of the sweep, whose combinations are the settings.
        entry: The result of the setting.
    """
    if sort is None:
        return False, False, 0
    name = sort.removesuffix(DOWN)
    value = value_in(grid, entry, name)
    if value is None:
        return True, False, 0
    if isinstance(value, str):
        # For the opposite order, negate the characters. A text then comes before its own prefixes.
        letters = (*(-ord(letter) for letter in value), 1) if sort.endswith(DOWN) else tuple(map(ord, value))
        return False, True, letters
    is_descending = sort.endswith(DOWN) or (name in SHORT and SHORT[name].best == "largest")
    return False, False, -value if is_descending else value


def _row(grid: Grid, entry: JournalEntry, view: SweepView) -> SweepRow:
    setting, values = grid.setting(entry.setting), {name: value_in(grid, entry, name) for name in view.columns}
    return SweepRow(
        setting={name: setting[name] for name in varied_axes(grid)},
        values={name: value for name, value in values.items() if value is not None},
        error=entry.error or None,
    )
