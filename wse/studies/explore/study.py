"""Study behind ``wse explore TABLE.csv``: an offline page with filters and a plot of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from wse.reports.number_text import in_bytes, plural
from wse.reports.output_file import page_path, write_output
from wse.reports.page.inline_page import inline_page
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, printable
from wse.studies.explore.csv_table import TableColumn, read_csv

SCRIPTS: Final = ("columns.js", "filters.js", "explore.js")
A_WAFER: Final = "tokens/s a wafer"
USER, RATES, WAFERS = (
    ("serving_tokens_per_s_per_user", "tokens_per_s_per_user"),
    ("serving_tokens_per_s", "tokens_per_s"),
    ("system_wafers", "wafers"),
)
"""Column names in sweeps and comparisons: tokens/s per user, tokens/s of all users, and wafers. The
first name that occurs in a table is used."""
ERROR: Final = "error"
LESS_IS_BETTER: Final = ("usd", "joules", "cycles", "wafers", "bytes", "power", "words", "hops")
"""Words that mark a column as better when smaller. Smaller is also better for times."""


def as_html(path: Path, columns: Sequence[TableColumn]) -> bytes:
    """Return an HTML page that plots any two columns of a table, encoded in UTF-8.

    Columns whose values are all equal are listed but cannot be plotted.

    Args:
        path: Path of the table, for the title.
        columns: Columns of the table.
    """
    all_columns = [*with_rate_per_wafer(columns)]
    varied = [column for column in all_columns if len(column.distinct) > 1]
    constant_columns = [(c.name, c.distinct[0]) for c in all_columns if len(c.distinct) == 1 and None not in c.words]
    axes = _axes(all_columns)
    x_index, y_index = _first_axes(varied)
    data = {
        "rows": len(columns[0].words),
        "columns": [_column_data(column, is_axis=column.name in axes) for column in varied],
        "x": x_index,
        "y": y_index,
    }
    title = f"{path.name}: {len(columns[0].words):,} rows"
    return inline_page(
        "wse.studies.explore", scripts=SCRIPTS, data=data, title=title, same=constant_columns, empty=not varied
    )


def with_rate_per_wafer(columns: Sequence[TableColumn]) -> Sequence[TableColumn]:
    """Append a column with the tokens/s per wafer to the columns of a table.

    The columns are returned unchanged if the table has no tokens/s of all users or no number of
    wafers, or already has such a column.
    """
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
    """Return the names of the columns that are inputs rather than results.

    In the table of a sweep, these are the columns before ``error``. In other tables, inputs cannot
    be told from results, so all columns are returned.
    """
    names = [column.name for column in columns]
    return set(names[: names.index(ERROR)] if ERROR in names else names)


def _first_axes(columns: Sequence[TableColumn]) -> tuple[int, int]:
    """Return the indices of the two columns that the page plots initially.

    - If the table has tokens/s per user and per wafer, these are plotted.
    - Otherwise, the first two numeric columns are plotted. If there are fewer than two, columns
      that are not numeric are used as well.
    """
    names = [column.name for column in columns]
    user = next((names.index(name) for name in USER if name in names), None)
    if user is not None and A_WAFER in names:
        return user, names.index(A_WAFER)
    numeric = [at for at, column in enumerate(columns) if column.numbers is not None]
    first, second, *_ = [*numeric, *(at for at in range(len(columns)) if at not in numeric), 0, 0]
    return first, second


def _column_data(column: TableColumn, *, is_axis: bool) -> dict[str, Any]:
    """Return the data of a column for the page's script.

    A column of strings is stored as a list of its distinct strings (``words``) and, for each cell,
    the index in this list (``codes``).

    Args:
        column: Column of the table, with numbers or strings.
        is_axis: Whether the column is an input of a sweep rather than a result.
    """
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
    """Return whether smaller values of a column are assumed to be better, based on its name.

    This determines the Pareto front that the page shows initially. The reader can change it.
    """
    if name == A_WAFER or "per_s" in name:
        return False
    return name.endswith("_s") or any(part in name for part in LESS_IS_BETTER)


class ExploreResult(Result):
    """The result of ``wse explore``: the page and the size of the table that it shows."""

    table: Annotated[str, Doc("path of the table")]
    page: Annotated[str, Doc("path of the page")]
    rows: Annotated[int, Doc("rows of the table")]
    columns: Annotated[int, Doc("columns of the table")]
    page_bytes: Annotated[int, Doc("size of the page", "B")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return a table with the page's path, and the size of the page and of the table it shows.

        Args:
            detail: Not used.
            width: Not used.
        """
        rows = [
            ("page", f"{printable(self.page)}, {in_bytes(self.page_bytes)}: open it in a browser, offline too"),
            ("table", f"{printable(self.table)}: {plural(self.rows, 'row')}, {plural(self.columns, 'column')}"),
        ]
        return (pair_table(rows, "Explore"),)


def explore(table: Path, output: Path | None = None) -> ExploreResult:
    """Write an HTML page that plots any two columns of a table, with filters and the Pareto front.

    Args:
        table: A CSV file, such as one written by ``wse sweep`` or ``wse compare --csv``.
        output: Path of the page. None for the table's path with the suffix ``.html``.

    Raises:
        BadInput: The table cannot be read or shown, or the page cannot be written.
    """
    path = page_path("-o", str(output or table.with_suffix(".html")), inputs=[table])
    columns = read_csv(table)
    page = as_html(table, columns)
    write_output("-o", path, page)
    return ExploreResult(
        table=str(table), page=str(path), rows=len(columns[0].words), columns=len(columns), page_bytes=len(page)
    )
