"""A grid of estimates, on all cores, that can be stopped and goes on where it was: what ``wse sweep`` does."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import wse
from wse.errors import BadInput, WseBug
from wse.files import read_file
from wse.models.load import load_model
from wse.plugins import file_of
from wse.reports.output_file import picture_path, write_output
from wse.reports.progress import SWEEPING, duration, progress_on
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, count, plural
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.sweep.fields import known_fields
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.journal import Journal
from wse.studies.sweep.plot import as_png, check_axis, check_points, figure_of
from wse.studies.sweep.read_table import Frame, read_entries, read_frame
from wse.studies.sweep.row import Entry, Outcome, estimate_setting, failed_outcome
from wse.studies.sweep.shown import SweepRow, SweepView, check_columns, check_view, prices_of, rows_table, shown_rows
from wse.studies.sweep.table import CSV, check_table_path, write_table
from wse.studies.workers.engine_pool import Outputs, engine_pool
from wse.studies.workers.pool import KilledItem, Queue, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED_FILE_LIMIT_BYTES: Final = 2**28

OnRow = Callable[[int, int], None]
VIEW: Final = SweepView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a sweep: its file, and the axis that goes across; the one with the most values where None."""

    path: Path
    axis: str | None = None


@dataclass(frozen=True, kw_only=True)
class SweepResult(Result):
    """A sweep whose table is written."""

    table: Annotated[str, Doc("The table, a row for each setting.")]
    settings: Annotated[int, Doc("Settings in all.")]
    settings_failed: Annotated[int, Doc("Settings without an answer: the column ``error`` says why.")]
    settings_resumed: Annotated[int, Doc("Settings that an earlier, interrupted sweep had done.")]
    jobs: Annotated[int, Doc("Processes.")]
    wall_s: Annotated[float, Doc("Time that the sweep took.", "s")]
    settings_per_s: Annotated[float, Doc("Settings done in a second.", "1/s")]
    columns: Annotated[tuple[str, ...], Doc("Columns that are shown beside the axes; others are in the table.")]
    rows: Annotated[tuple[SweepRow, ...], Doc("Settings that are shown, as sorted; all are in the table.")]
    prices: Annotated[tuple[str, ...], Doc("Prices of an hour that costs rest on, each with its range and source.")]
    png: Annotated[str | None, Doc("The picture.")] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """The settings that are shown; the file of the table, the number of its settings, and the time they took."""
        jobs = f"{self.jobs:,} process{'' if self.jobs == 1 else 'es'}"
        resumed = f", {count(self.settings_resumed)} of them done before" if self.settings_resumed else ""
        rows = [
            ("table", self.table),
            ("settings", count(self.settings) + resumed),
            ("time", f"{duration(self.wall_s)}: {count(self.settings_per_s)} a second by {jobs}"),
        ]
        if self.settings_failed:
            rows.append(("no answer", f"{plural(self.settings_failed, 'setting')}: see the column error"))
        rows += [("look at it", f"wse explore {shlex.quote(self.table)}")] if self.table.endswith(CSV) else []
        rows += [] if self.png is None else [("picture", self.png)]
        return rows_table(self.rows, self.columns, self.settings, self.prices), pair_table(rows, "Sweep")

    def frame(self) -> Frame:
        """Return the table of the sweep, all settings and columns, as a pandas DataFrame.

        Raises:
            BadInput: pandas is not installed, or the file of the table cannot be read any more.
        """
        return read_frame(Path(self.table))

    def plot(self, x: str | None = None) -> Figure:
        """Return a matplotlib figure: tokens/s of one user and of all users, TTFT and cost over an axis.

        Args:
            x: The axis of the sweep that goes across; the one with the most values where None.

        Raises:
            UnknownName: The sweep has no such axis with several values.
            BadInput: No axis has several values, or the file of the table cannot be read any more.
        """
        axes = tuple(self.rows[0].setting)
        check_points(self.settings, axes)
        grid, entries = read_entries(Path(self.table), axes, self.settings)
        return figure_of(grid, entries, check_axis(grid, x))


def sweep(
    grid: Grid,
    table: Path,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
    restart: bool = False,
    every_column: bool = False,
    view: SweepView = VIEW,
    picture: Picture | None = None,
    on_row: OnRow = lambda done, failed: None,
) -> SweepResult:
    """Estimate every setting of a grid and write a table with a row for each, in the grid's order.

    What is done is kept beside the table until that is there: the same call goes on where an earlier one was stopped.

    Args:
        grid: The settings.
        table: A file that ends in ``.csv`` or ``.parquet``.
        jobs: Processes; all cores by default, or all CPUs of a cluster.
        engine: Whose processes they are.
        restart: Whether what an earlier sweep has done is dropped.
        every_column: Whether the table has grades and their prose too.
        view: What is shown of it.
        picture: A picture of it; none where None.
        on_row: Called with (done, without an answer) at the start and after each setting.

    Raises:
        BadInput: the table cannot be written, another sweep is writing it, or the one that began it had other settings;
            no setting has a column that is to be shown; or none has an answer, once the table is written.
        WseBug: a setting ended in a bug of ours; the table is written, with that in its row.
    """
    check_table_path(table)
    check_view(view)
    axis = None if picture is None else check_axis(grid, picture.axis)
    began = time.perf_counter()
    bugs: list[str] = []
    with (
        engine_pool(engine, jobs) as pool,
        Journal(table, _digest(grid), len(grid), restart=restart) as journal,
    ):
        finished = set(journal.finished_settings())
        check = partial(check_columns, view, grid)
        before, failed = len(finished), sum(bool(entry.error) for entry in journal.entries())
        if known := next((entry for entry in journal.entries() if not entry.error), None):
            check(known.row)
        on_row(before, failed)
        remaining = [setting for setting in range(len(grid)) if setting not in finished]
        processes = min(pool.processes, len(remaining))
        for answers_done, answered in enumerate(_outcomes(grid, remaining, processes, pool.outputs), 1):
            journal.append(answered.setting, answered.line)
            if known is None and not answered.failed:
                known = Entry.model_validate_json(answered.line)
                check(known.row)  # what is done is kept, so that the command with another name goes on from there
            failed += answered.failed
            bugs += [answered.bug] if answered.bug else []
            on_row(before + answers_done, failed)
        write_table(grid, journal.entries, table, every_column=every_column)
        rows, prices = shown_rows(grid, journal.entries(), view), prices_of(journal.entries())
        if picture is not None and axis is not None:
            write_output("--png", picture.path, as_png(grid, journal.entries(), axis))
        journal.remove()
    if bugs:
        message = f"{len(bugs)} settings ended in a bug; the table {table} has the others. The first:\n{bugs[0]}"
        raise WseBug(message)
    if failed == len(grid):
        message = (
            f"none of {plural(failed, 'setting')} has an answer; the first: {rows[0].error} (the table {table} has all)"
        )
        raise BadInput(message)
    wall_s = time.perf_counter() - began
    return SweepResult(
        table=str(table),
        settings=len(grid),
        settings_failed=failed,
        settings_resumed=before,
        jobs=processes,
        wall_s=wall_s,
        settings_per_s=len(remaining) / wall_s,
        columns=view.columns,
        rows=rows,
        prices=prices,
        png=None if picture is None else str(picture.path),
    )


def _outcomes(grid: Grid, settings: Sequence[int], processes: int, outputs: Outputs) -> Iterator[Outcome]:
    """The outcomes of some settings, in the order in which they are done."""
    task = Task(
        function=estimate_setting,
        arguments=lambda setting: (setting, grid.request(setting)),
        owner="the sweep",
        start_remedy="what is done is kept: free some memory or take fewer --jobs, and give the same command again",
        kill_remedy="if memory ran out, sweep again with fewer --jobs",
    )
    for setting, output in outputs(Queue(grid.groups(settings)), processes, task):
        yield failed_outcome(setting, output.reason) if isinstance(output, KilledItem) else output


def sweep_picture(png: str | None, axis: str | None) -> Picture | None:
    """The picture that --png and --x ask for. Raises BadInput where there is no such file, or an axis alone."""
    if png is None:
        if axis is not None:
            message = f"--x {axis}: is the axis of a picture; give --png FILE.png too, or leave it out"
            raise BadInput(message)
        return None
    return Picture(path=picture_path("--png", png), axis=axis)


@contextmanager
def sweep_progress(stream: TextIO, settings: int) -> Iterator[OnRow]:
    """Yield a function to call with (done, without an answer) at the start and after each setting.

    Says how to go on when Ctrl-C ends what is done with it.
    """
    stored_count = 0
    try:
        with progress_on(stream, SWEEPING) as on_progress:

            def on_row(count: int, failed: int) -> None:
                nonlocal stored_count
                stored_count = count
                on_progress(count, settings, without_answer(failed))

            yield on_row
    except KeyboardInterrupt:
        if stored_count:
            stream.write(
                f"sweep: {stored_count:,} of {settings:,} settings are kept; the same command goes on after them\n"
            )
        raise


def without_answer(failed: int) -> str:
    """The number of settings without an answer as progress says it; empty where there are none."""
    return f"{failed:,} without an answer" if failed else ""


def _digest(grid: Grid) -> str:
    """A digest of all that rows depend on: the settings, the models and the files that they name, the version."""
    digests: dict[str, Any] = {}
    for axis in grid.axes:
        if known_fields()[axis.name] is not str:
            continue
        for value in axis.values:
            if axis.name == "model":
                digests[f"model {value}"] = repr(asdict(load_model(str(value)).spec))
            elif (path := file_of(str(value))).is_file():
                content = read_file(path, NAMED_FILE_LIMIT_BYTES, BadInput)
                digests[f"{axis.name} {value}"] = hashlib.sha256(content).hexdigest()
    axes = [[axis.name, axis.values] for axis in grid.axes]
    return hashlib.sha256(json.dumps([wse.__version__, axes, digests]).encode()).hexdigest()
