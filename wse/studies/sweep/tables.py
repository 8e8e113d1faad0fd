"""Printed table of a sweep: axes and columns, with prices and errors in the footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from wse.reports.number_text import count, plural, range_text, rate_and_latency, seconds, three_figures
from wse.reports.table import Column, Table, number
from wse.reports.terminal import printable
from wse.studies.sweep.grid import unit_of
from wse.studies.sweep.shown import PRICES, SHORT, SweepRow

LENGTHS: Final = {"prompt": "prompt_len", "new": "new_tokens"}
"""Axes of the columns with request lengths. Lengths that all rows share are in the note instead."""
INTERVAL: Final = ("low", "high")
"""Columns with the ends of the interval of tok/s/user, which are printed as one column."""
_MAX_PRICES: Final = 3


def rows_table(
    rows: Sequence[SweepRow],
    shown_columns: Sequence[str],
    settings: int,
    best: Mapping[str, float],
    prices: Sequence[str] = (),
) -> Table:
    """Build the printed table of a sweep, with prices and errors in the footer.

    Args:
        rows: The settings to print, with their values.
        shown_columns: Columns in addition to the axes.
        settings: Total number of settings of the sweep.
        best: Best value of each column over all settings. It is marked if its row is printed.
        prices: Prices on which costs are based, as strings.
    """
    cells = [{**row.setting, **{f"value {key}": value for key, value in row.values.items()}} for row in rows]
    axes = list(dict.fromkeys(name for row in rows for name in row.setting))
    columns = [_axis_column(name, cells) for name in axes]
    lengths = _common_lengths(cells)
    with_interval = set(shown_columns) >= set(INTERVAL)
    columns += [
        _value_column(name, cells)
        for name in shown_columns
        if not _repeats_axis(name, cells)
        and not (lengths and name in LENGTHS)
        and not (name in INTERVAL and with_interval)
    ]
    if with_interval:
        place = next((i + 1 for i, c in enumerate(columns) if c.key == "value user"), len(columns))
        columns.insert(place, _INTERVAL_COLUMN)
    keys = {column.key for column in columns}
    best_of_others = [
        name
        for name, value in best.items()
        if f"value {name}" in keys and value not in (row.values.get(name) for row in rows)
    ]
    unmarked_keys = {f"value {name}" for name in best_of_others}
    columns = [replace(column, best="") if column.key in unmarked_keys else column for column in columns]
    return Table(
        columns=tuple(columns),
        rows=cells,
        title="Settings",
        note=lengths,
        footer=[*_footer(rows, shown_columns, settings, best_of_others, prices)],
    )


def _interval_text(row: Mapping[str, Any]) -> str:
    """Return the interval of the speed per user, such as ``25,000 to 82,849``; empty if unknown."""
    low, high = (row.get(f"value {name}") for name in INTERVAL)
    return "" if low is None or high is None else range_text(low, high, count)


_INTERVAL_COLUMN: Final = Column(
    key="value low", title="90 %", cell=_interval_text, numeric=True, priority=SHORT["low"].priority
)
"""Column of the 90 % interval of tok/s/user, which combines the columns ``low`` and ``high``."""


def _common_lengths(cells: Sequence[Mapping[str, Any]]) -> str:
    """Describe the prompt and answer lengths if all rows share them; otherwise return ""."""
    all_lengths = {tuple(row.get(f"value {name}") for name in LENGTHS) for row in cells if "value prompt" in row}
    if len(all_lengths) != 1 or None in (lengths := next(iter(all_lengths))):
        return ""
    return "{} + {} tokens".format(*(f"{length:,}" if isinstance(length, int) else length for length in lengths))


def _repeats_axis(name: str, cells: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a result column only repeats an axis, so that it need not be printed.

    Args:
        name: Name of the result column.
        cells: Rows of the printed table. Keys of result columns have the prefix "value ".
    """
    key, axis = f"value {name}", LENGTHS.get(name, name)
    return any(key in row for row in cells) and all(row.get(axis) == row[key] for row in cells if key in row)


def _axis_column(name: str, cells: Sequence[Mapping[str, Any]]) -> Column:
    values = [row.get(name) for row in cells]
    if all(isinstance(value, int | float) for value in values):
        is_time = _is_time(name) or unit_of(name) == "s"
        text = seconds if is_time else rate_and_latency if name.endswith("_bytes_per_s") else "{:.10g}".format
        return number(name, name.rpartition(".")[2], text)
    return Column(key=name, title=name.rpartition(".")[2])


def _value_column(name: str, cells: Sequence[Mapping[str, Any]]) -> Column:
    key = f"value {name}"
    if name in SHORT:
        return replace(SHORT[name], key=key)
    values = [row[key] for row in cells if key in row]
    if values and all(isinstance(value, int | float) for value in values):
        return number(key, name, seconds if _is_time(name) else three_figures, priority=3)
    return Column(key=key, title=name, priority=3)


def _is_time(name: str) -> bool:
    """Return whether a column contains times in seconds, according to the suffix of its name."""
    return name.endswith("_s") and not name.endswith("_per_s")


def _footer(
    rows: Sequence[SweepRow],
    shown_columns: Sequence[str],
    settings: int,
    best_of_others: Sequence[str],
    prices: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Return explanations of columns, prices and errors, and which best values are not printed."""
    if any(name in SHORT for name in shown_columns):
        docs = [f"{SHORT[n].title}: {SHORT[n].doc}" for n in shown_columns if n in ("user", "throughput", "cost")]
        if set(shown_columns) >= set(INTERVAL):
            docs.append(f"{_INTERVAL_COLUMN.title}: interval of tok/s/user")
        yield "*", "; ".join(["best value of the column over all settings", *docs])
        yield "layouts", "chosen for each row separately, so a slower machine can be better in one column"
    if "cost" in shown_columns:
        for price in prices[:_MAX_PRICES]:
            yield SHORT["cost"].title, printable(price)
        if len(prices) > _MAX_PRICES:
            yield SHORT["cost"].title, f"{len(prices) - _MAX_PRICES} other prices in the columns {', '.join(PRICES)}"
    if any(name.startswith("drafts_") for name in shown_columns):
        yield "drafts_...", "if drafts are not faster, values are without drafts, and drafts_draft_tokens is 0"
    errors = dict.fromkeys(row.error for row in rows if row.error)
    for error in list(errors)[:3]:
        yield "no answer", printable(error)
    if len(errors) > 3:
        yield "no answer", f"{len(errors) - 3} other reasons in the column error"
    if len(rows) < settings:
        text = f"{plural(settings - len(rows), 'more setting')} in the table; --top N shows more"
        if best_of_others:
            titles = " and ".join(SHORT[name].title for name in best_of_others)
            text += f". Some have better values of {titles}: print them with "
            text += " or ".join(f"--sort {name}" for name in best_of_others)
        yield "...", text
