"""ExploreResult: the path and size of the page that ``wse explore`` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, in_bytes, plural, printable


@dataclass(frozen=True, kw_only=True)
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
