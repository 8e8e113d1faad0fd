"""The result of ``wse explore``: where the page is, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, in_bytes, plural, printable


@dataclass(frozen=True, kw_only=True)
class ExploreResult(Result):
    """A page of a table."""

    table: Annotated[str, Doc("the table")]
    page: Annotated[str, Doc("the page")]
    rows: Annotated[int, Doc("rows of the table")]
    columns: Annotated[int, Doc("columns of the table")]
    page_bytes: Annotated[int, Doc("size of the page", "B")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the page and the table."""
        rows = [
            ("page", f"{printable(self.page)}, {in_bytes(self.page_bytes)}: open it in a browser, offline too"),
            ("table", f"{printable(self.table)}: {plural(self.rows, 'row')}, {plural(self.columns, 'column')}"),
        ]
        return (pair_table(rows, "Explore"),)
