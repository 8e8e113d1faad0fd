"""TracesComparison: two recorded runs, compared in tables and in a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.reports.page.html_table import tables_as_html
from wse.reports.table import Table
from wse.reports.terminal import WIDEST
from wse.studies.compare.grid.verdict import change_of_runs
from wse.studies.compare.tables import detail_tables, verdict_table
from wse.tracing.print.diff import changes_table
from wse.tracing.query.two_traces.compare import TracesResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGED: Final = {
    "prefill": "What changed in reading the prompts",
    "decode": "What changed in a generated token",
    "verify": "What changed in a pass over several tokens of one user",
}
"""Titles of the tables of changes, by phase."""
NOTE: Final = "in cycles; the largest of each kind first"


class TracesComparison(TracesResult):
    """Comparison of the cycle counts of two recorded runs, shown as tables and a figure."""

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables of the two runs, and a table of changed cycles for each phase.

        Args:
            detail: Not used.
            width: Not used.
        """
        return trace_tables(self)

    def _repr_html_(self) -> str:
        """Return the verdict and the tables of the comparison as HTML, for notebooks."""
        return tables_as_html((verdict_table((change_of_runs(*self.rows),)), *self.tables()))

    def plot(self) -> Figure:
        """Plot the cycle counts of both runs by cause and by op."""
        from wse.studies.compare.plot import runs_figure

        return runs_figure(self)


def trace_tables(result: TracesResult) -> tuple[Table, ...]:
    """Return tables that compare two recorded runs.

    The first tables show the speed, traffic, SRAM and limits of each run. They are followed by one
    table of changed cycles for each phase, such as prefill or decode.
    """
    changes = (changes_table(changes, title=CHANGED[phase], note=NOTE) for phase, changes in result.changes.items())
    return (*detail_tables(result.rows, [("USD/Mtok", text) for text in result.prices]), *changes)
