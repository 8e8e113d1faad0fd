"""SweepResult: the best settings of a sweep, and the path of the table with all settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from wse.reports.number_text import count, plural
from wse.reports.progress import duration
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST
from wse.studies.sweep.shown import SweepRow
from wse.studies.sweep.table import CSV, Frame, read_entries, read_frame
from wse.studies.sweep.tables import rows_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SweepResult(Result):
    """Result of ``wse sweep``: path of its table, counts of settings, and printed rows."""

    table: Annotated[str, Doc("Path of the table, which has a row for each setting.")]
    settings: Annotated[int, Doc("Number of settings.")]
    settings_failed: Annotated[int, Doc("Settings without an answer. The column ``error`` says why.")]
    settings_resumed: Annotated[int, Doc("Settings that an earlier, interrupted sweep had finished.")]
    jobs: Annotated[int, Doc("Number of processes.")]
    wall_s: Annotated[float, Doc("Time that the sweep took.", "s")]
    settings_per_s: Annotated[float, Doc("Settings finished per second.", "1/s")]
    columns: Annotated[tuple[str, ...], Doc("Columns that are printed in addition to the axes. The table has more.")]
    rows: Annotated[tuple[SweepRow, ...], Doc("Printed settings, sorted. The table has all settings.")]
    best: Annotated[Mapping[str, float], Doc("Best value over all settings, by printed column.")]
    prices: Annotated[tuple[str, ...], Doc("Prices per hour that costs are based on, each with its range and source.")]
    png: Annotated[str | None, Doc("Path of the plot.")] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build a table of the printed settings, and a table of the file, counts and run time.

        Args:
            detail: Has no effect on this result.
            width: Has no effect on this result.
        """
        jobs = f"{self.jobs:,} process{'' if self.jobs == 1 else 'es'}"
        resumed = f", {count(self.settings_resumed)} of them done before" if self.settings_resumed else ""
        rows = [
            ("table", self.table),
            ("settings", count(self.settings) + resumed),
            ("time", f"{duration(self.wall_s)} with {jobs}"),
        ]
        if self.settings_failed:
            rows.append(("no answer", f"{plural(self.settings_failed, 'setting')}: see the column error"))
        rows += [("look at it", f"wse explore {shlex.quote(self.table)}")] if self.table.endswith(CSV) else []
        rows += [] if self.png is None else [("picture", self.png)]
        return rows_table(self.rows, self.columns, self.settings, self.best, self.prices), pair_table(rows, "Sweep")

    def frame(self) -> Frame:
        """Return all rows and columns of the table as a pandas DataFrame.

        Raises:
            BadInput: pandas is not installed, or the table can no longer be read.
        """
        return read_frame(Path(self.table))

    def plot(self, x: str | None = None) -> Figure:
        """Draw speed per user, throughput, TTFT and cost against one axis of the sweep.

        Args:
            x: Name of the horizontal axis. None for the axis with the most values.

        Raises:
            UnknownName: There is no axis with several values of this name.
            BadInput: No axis has several values, or the table can no longer be read.
        """
        from wse.studies.sweep.plot import check_axis, check_points, figure_of

        axes = tuple(self.rows[0].setting)
        check_points(self.settings, axes)
        grid, entries = read_entries(Path(self.table), axes, self.settings)
        return figure_of(grid, entries, check_axis(grid, x))
