"""The rows of a sweep that its print-out has: the axes, and eight columns by default, or those requested.

A column is one of the table's, or has a short name: ``dtype``, ``wafers``, ``users``, ``replicas``, ``ttft``, ``user``,
``throughput``, ``fits`` or ``cost``. Latencies, throughput and cost are those of one operating point.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

from wse.errors import BadInput, UnknownName
from wse.reports.price import scale_note
from wse.reports.result import Doc, Result
from wse.reports.terminal import count, printable, seconds, three_figures
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.row import Cell, Entry, Row, column

Direction = Literal["largest", "smallest", ""]


class Shown(NamedTuple):
    """A column that goes by a short name: the table's columns that have it, the first that is there, and its looks."""

    columns: tuple[str, ...]
    title: str
    formatter: Callable[[Any], str]
    best: Direction
    doc: str
    priority: int


SHORT: Final[dict[str, Shown]] = {
    "dtype": Shown(("model_dtype",), "type", printable, "", "element type of the weights", 6),
    "wafers": Shown(("system_wafers",), "wafers", count, "smallest", "wafers", 2),
    "users": Shown(("serving_users", "options_batch"), "users", count, "", "requests in flight", 4),
    "replicas": Shown(("serving_replicas",), "replicas", count, "smallest", "machines that share the users", 6),
    "ttft": Shown(("serving_ttft_s", "latency_ttft_s"), "TTFT", seconds, "smallest", "mean time to first token", 5),
    "user": Shown(
        ("serving_tokens_per_s_per_user", "decode_tokens_per_s_per_user"),
        "tok/s/user",
        count,
        "largest",
        "output tokens per second of each user after the first",
        0,
    ),
    "throughput": Shown(
        ("serving_tokens_per_s", "decode_tokens_per_s"),
        "tok/s",
        count,
        "largest",
        "output tokens per second of all users",
        1,
    ),
    "fits": Shown(("sram_fits",), "fits", lambda fits: "yes" if fits else "no", "", "whether SRAM holds the model", 7),
    "cost": Shown(
        ("cost_usd_per_million_tokens",),
        "USD/Mtok",
        three_figures,
        "smallest",
        "price of a million output tokens, prompts included",
        3,
    ),
}
DEFAULT_COLUMNS: Final = tuple(name for name in SHORT if name != "replicas")
PRICES: Final = {"cost_wafer_usd_per_hour": "wafer_name", "cost_gpu_usd_per_hour": "gpu_name"}
"""Columns of prices, and those of the names of what they are of."""
DOWN: Final = ":down"
TOP: Final = 20
MOST_SHOWN: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """The view of a sweep that is printed.

    Attributes:
        columns: Its columns beside the axes.
        sort: A column: the best first where it has one, else the least, or with ``:down`` the most. None: the grid's
            order; where not all are shown, the fastest for a user first.
        top: The most rows.
    """

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    sort: str | None = None
    top: int = TOP


@dataclass(frozen=True, kw_only=True)
class SweepRow(Result):
    """A setting of a sweep with what is shown of it."""

    setting: Annotated[Mapping[str, str | float], Doc("its value on each axis that has several")]
    values: Annotated[Mapping[str, str | float | bool], Doc("what was asked for, by column; without those it has not")]
    error: Annotated[str | None, Doc("why it has no answer")] = None


def sweep_view(columns: str | Sequence[str] | None, sort: str | None, top: int | None) -> SweepView:
    """Return the view that --columns, --sort and --top ask for."""
    parts = columns.split(",") if isinstance(columns, str) else columns
    names = DEFAULT_COLUMNS if parts is None else tuple(part.strip() for part in parts if part.strip())
    return SweepView(columns=names, sort=sort, top=TOP if top is None else top)


def check_view(view: SweepView) -> None:
    """Refuse a view whose columns are empty or twice there, or that has no row. Raises BadInput."""
    if not view.columns or len(set(view.columns)) < len(view.columns):
        message = f"--columns {','.join(view.columns)!r}: give names with commas between, each once, such as user,cost"
        raise BadInput(message)
    if not 1 <= view.top <= MOST_SHOWN:
        message = f"--top {view.top}: give a number of rows from 1 to {MOST_SHOWN:,}"
        raise BadInput(message)


def check_columns(view: SweepView, grid: Grid, row: Row) -> None:
    """Refuse columns that no setting has, by the first that has an answer. Raises UnknownName."""
    names = {column(axis.name) for axis in grid.axes}
    for option, asked in (("--columns", view.columns), ("--sort", (view.sort or "user",))):
        for name in asked:
            bare = name.removesuffix(DOWN) if option == "--sort" else name
            if bare not in SHORT and column(bare) not in row and column(bare) not in names:
                near = difflib.get_close_matches(column(bare), row, n=5)
                raise UnknownName("column", bare, {*SHORT, *names, *near}, where=option)


def shown_rows(grid: Grid, entries: Iterable[Entry], view: SweepView) -> tuple[SweepRow, ...]:
    """Return the rows that a view shows, of entries in the grid's order; those without an answer last."""
    sort = view.sort or ("user" if len(grid) > view.top else None)
    rows = ((_rank(sort, grid, entry), entry.setting, _row(grid, entry, view)) for entry in entries)
    return tuple(row for _, _, row in heapq.nsmallest(view.top, rows, key=lambda ranked: ranked[:2]))


def several(grid: Grid) -> list[str]:
    """Return the axes that have several values."""
    return [axis.name for axis in grid.axes if len(axis.values) > 1]


def value_in(grid: Grid, entry: Entry, name: str) -> Cell:
    """Return the value of a setting under a column, a short name or an axis; None where it has none."""
    if name in SHORT:
        return next((entry.row[key] for key in SHORT[name].columns if entry.row.get(key) is not None), None)
    axes = {column(axis): value for axis, value in grid.setting(entry.setting).items()}
    return axes.get(column(name), entry.row.get(column(name)))


def prices_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the prices that the costs of settings rest on, each once, with range and source."""
    rows = (entry.row for entry in entries)
    found = (_price(row, key) for row in rows for key in PRICES if row.get(key) is not None)
    return tuple(dict.fromkeys(found))


def _price(row: Row, key: str) -> str:
    low, price, high = (float(row[f"{key}{end}"] or 0) for end in ("_low", "", "_high"))
    source = str(row["cost_assumptions"]).partition(": ")[2]
    return f"{scale_note((low, price, high), str(row[PRICES[key]]))}; {source}"


def _rank(sort: str | None, grid: Grid, entry: Entry) -> tuple[bool, bool, Any]:
    """Return the place of an entry: one without an answer, or without the value, comes behind all others."""
    if sort is None:
        return False, False, 0
    name = sort.removesuffix(DOWN)
    value = value_in(grid, entry, name)
    if value is None:
        return True, False, 0
    if isinstance(value, str):
        return False, True, value
    down = sort.endswith(DOWN) or (name in SHORT and SHORT[name].best == "largest")
    return False, False, -value if down else value


def _row(grid: Grid, entry: Entry, view: SweepView) -> SweepRow:
    setting, values = grid.setting(entry.setting), {name: value_in(grid, entry, name) for name in view.columns}
    return SweepRow(
        setting={name: setting[name] for name in several(grid)},
        values={name: value for name, value in values.items() if value is not None},
        error=entry.error or None,
    )
