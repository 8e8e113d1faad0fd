"""The page of ``wse explore``: one offline file with a drawing of any two columns, filters, and the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wse.reports.page.inline_page import inline_page
from wse.studies.explore.csv_table import TableColumn

SCRIPTS: Final = ("columns.js", "filters.js", "explore.js")
A_WAFER: Final = "tokens/s a wafer"
USER, RATES, WAFERS = (
    ("serving_tokens_per_s_per_user", "tokens_per_s_per_user"),
    ("serving_tokens_per_s", "tokens_per_s"),
    ("system_wafers", "wafers"),
)
"""Columns of tables of sweeps and comparisons: tokens of a user, of all, and wafers; the first that is there counts."""
ERROR: Final = "error"
LESS_IS_BETTER: Final = ("usd", "joules", "cycles", "wafers", "bytes", "power", "words", "hops")
"""Parts of names of columns of which less is better, as it is of times."""


def as_html(path: Path, columns: Sequence[TableColumn]) -> bytes:
    """Return the page of a table, UTF-8."""
    shown = [*with_rate_a_wafer(columns)]
    varied = [column for column in shown if len(column.distinct) > 1]
    same = [(c.name, c.distinct[0]) for c in shown if len(c.distinct) == 1 and None not in c.words]
    axes = _axes(shown)
    across, up = _first_axes(varied)
    data = {
        "rows": len(columns[0].words),
        "columns": [_packed(column, is_axis=column.name in axes) for column in varied],
        "x": across,
        "y": up,
    }
    title = f"{path.name}: {len(columns[0].words):,} rows"
    return inline_page("wse.studies.explore", scripts=SCRIPTS, data=data, title=title, same=same, empty=not varied)


def with_rate_a_wafer(columns: Sequence[TableColumn]) -> Sequence[TableColumn]:
    """Return the columns, and the tokens a second of all users over the wafers where the table has both."""
    by_name = {column.name: column for column in columns}
    rate, wafers = _first_numbers(by_name, RATES), _first_numbers(by_name, WAFERS)
    if rate is None or wafers is None or A_WAFER in by_name:
        return columns
    pairs = zip(rate.numbers or (), wafers.numbers or (), strict=True)
    numbers = tuple(r / w if r is not None and w else None for r, w in pairs)
    words = tuple(None if number is None else f"{number:.6g}" for number in numbers)
    return (*columns, TableColumn(name=A_WAFER, numbers=numbers, words=words))


def _first_numbers(by_name: Mapping[str, TableColumn], names: Sequence[str]) -> TableColumn | None:
    return next((by_name[name] for name in names if name in by_name and by_name[name].numbers is not None), None)


def _axes(columns: Sequence[TableColumn]) -> set[str]:
    """Return the columns that were requested: of a sweep's table those before the error, of another all."""
    names = [column.name for column in columns]
    return set(names[: names.index(ERROR)] if ERROR in names else names)


def _first_axes(columns: Sequence[TableColumn]) -> tuple[int, int]:
    """The two columns that are drawn first: tokens of a wafer over those of a user, else the first two of numbers."""
    names = [column.name for column in columns]
    user = next((names.index(name) for name in USER if name in names), None)
    if user is not None and A_WAFER in names:
        return user, names.index(A_WAFER)
    numeric = [at for at, column in enumerate(columns) if column.numbers is not None]
    first, second, *_ = [*numeric, *(at for at in range(len(columns)) if at not in numeric), 0, 0]
    return first, second


def _packed(column: TableColumn, *, is_axis: bool) -> dict[str, Any]:
    """Return a column as the script reads it: numbers, or words once each and their places."""
    if column.numbers is not None:
        return {
            "name": column.name,
            "numbers": column.numbers,
            "axis": is_axis,
            "less": _less_is_better(column.name),
        }
    words = column.distinct
    places = {word: at for at, word in enumerate(words)}
    codes = [None if word is None else places[word] for word in column.words]
    return {"name": column.name, "codes": codes, "words": words, "axis": is_axis, "less": False}


def _less_is_better(name: str) -> bool:
    """Return whether rows with less in a column count as better at first; the page lets one say otherwise."""
    if name == A_WAFER or "per_s" in name:
        return False
    return name.endswith("_s") or any(part in name for part in LESS_IS_BETTER)
