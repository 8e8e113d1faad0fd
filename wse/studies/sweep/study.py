"""Study behind ``wse sweep``: an interruptible grid of estimates that uses all cores."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import wse
from wse.errors import BadInput, WseBug
from wse.files import path_exists, read_file
from wse.models.load import load_model
from wse.plugins import file_of
from wse.reports.number_text import plural
from wse.reports.output_file import png_of, write_output
from wse.reports.progress import SWEEPING, OnProgress, ignore, progress_on
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.sweep.grid import Grid, known_fields
from wse.studies.sweep.journal import Journal
from wse.studies.sweep.plot import check_axis, figure_of
from wse.studies.sweep.result import SweepResult
from wse.studies.sweep.row import JournalEntry, estimate_setting
from wse.studies.sweep.shown import SweepView, best_values, check_columns, check_view, prices_of, shown_rows
from wse.studies.sweep.table import check_table_path, write_table
from wse.studies.workers.engine_pool import Outputs, Pool, engine_pool
from wse.studies.workers.pool import KilledItem, Queue, Task


@contextmanager
def sweep_progress(stream: TextIO) -> Iterator[OnProgress]:
    """Yield a callback that displays the progress of a sweep.

    After Ctrl-C, a message explains how to resume the sweep.

    Args:
        stream: Output stream.
    """
    done_settings, settings = 0, 0
    try:
        with progress_on(stream, SWEEPING) as show:

            def on_progress(count: int, total: int, name: str) -> None:
                """Show the progress, and remember it for the message after Ctrl-C."""
                nonlocal done_settings, settings
                done_settings, settings = count, total
                show(count, total, name)

            yield on_progress
    except KeyboardInterrupt:
        if done_settings:
            stream.write(
                f"sweep: {done_settings:,} of {settings:,} settings are saved; the same command resumes after them\n"
            )
        raise


NAMED_FILE_LIMIT_BYTES: Final = 2**28

VIEW: Final = SweepView()


def sweep(
    grid: Grid,
    table: Path,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
    restart: bool = False,
    every_column: bool = False,
    view: SweepView = VIEW,
    png: Path | None = None,
    x: str | None = None,
    on_progress: OnProgress = ignore,
) -> SweepResult:
    """Estimate every setting of a grid and write a table with one row per setting.

    Until the table is written, finished settings are stored in a journal next to it. Repeating the
    call resumes an interrupted sweep. At the end, bugs or the failure of all settings are an error.

    Args:
        grid: Axes of the sweep, whose combinations are the settings.
        table: Path of the table, which ends in ``.csv`` or ``.parquet``.
        jobs: Number of processes. None uses all cores, or all CPUs of a cluster.
        engine: Whether the processes run on this computer or on a Ray cluster.
        restart: True to discard the results of an interrupted sweep instead of continuing it.
        every_column: Whether the table includes the columns with grades and sources.
        view: Rows and columns of the result.
        png: Path of the plot to write, or None.
        x: Name of the horizontal axis of the plot. None for the axis with the most values.
        on_progress: Called with (settings done, total, a note on settings without an answer) at the
            start and after each setting.

    Raises:
        BadInput: The table cannot be written, is being written by another sweep, or was started
            with different settings. Or a column of the view does not exist, or no setting has an
            answer; in the latter case, the table is still written.
        WseBug: A setting triggered a bug in wse. The table is still written and contains the error.
    """
    check_table_path(table)
    check_view(view)
    check_columns(view, grid)
    axis = None if png is None else check_axis(grid, x)
    began = time.perf_counter()
    with (
        engine_pool(engine, jobs) as pool,
        Journal(table, _digest(grid), len(grid), restart=restart) as journal,
    ):
        totals = _finish(grid, journal, pool, view, on_progress)
        write_table(grid, journal.entries, table, every_column=every_column)
        rows, prices = shown_rows(grid, journal.entries(), view), prices_of(journal.entries())
        best = best_values(grid, journal.entries(), view.columns)
        if png is not None and axis is not None:
            write_output("--png", png, png_of(figure_of(grid, journal.entries(), axis)))
        journal.remove()
    _check_answers(totals, len(grid), rows[0].error if rows else None, table)
    wall_s = time.perf_counter() - began
    return SweepResult(
        table=str(table),
        settings=len(grid),
        settings_failed=totals.failed,
        settings_resumed=totals.before,
        jobs=totals.processes,
        wall_s=wall_s,
        settings_per_s=(len(grid) - totals.before) / wall_s,
        columns=view.columns,
        rows=rows,
        best=best,
        prices=prices,
        png=None if png is None else str(png),
    )


class _Counts(NamedTuple):
    """Counts of settings and processes of a finished sweep, and the bugs that it found.

    Attributes:
        before: Settings already finished by an earlier, interrupted sweep.
        failed: Settings without a result.
        processes: Number of processes used.
        bugs: Tracebacks of bugs in wse.
    """

    before: int
    failed: int
    processes: int
    bugs: tuple[str, ...]


def _check_answers(totals: _Counts, settings: int, first_error: str | None, table: Path) -> None:
    """Raise an error if a setting ended in a bug, or if no setting has an answer.

    Args:
        totals: Counts of the finished sweep.
        settings: Number of settings.
        first_error: Error of the first row that is shown.
        table: Path of the table, which is written already.
    """
    if totals.bugs:
        bugs = totals.bugs
        raise WseBug(f"{len(bugs)} settings ended in a bug; the table {table} has the others. The first:\n{bugs[0]}")
    if totals.failed == settings:
        failed = plural(totals.failed, "setting")
        raise BadInput(f"none of {failed} has an answer; the first: {first_error} (the table {table} has all)")


def _finish(grid: Grid, journal: Journal, pool: Pool, view: SweepView, on_progress: OnProgress) -> _Counts:
    """Estimate all settings that are not in the journal yet, and add them to the journal.

    Args:
        grid: All settings of the sweep.
        journal: File with the finished settings of this sweep.
        pool: Processes that estimate the settings.
        view: Columns to print, which are checked against the first result.
        on_progress: Called with the numbers of finished and of all settings, and a note on failed ones.

    Raises:
        UnknownName: A column to print does not exist. The journal is kept, so that the same sweep
            can resume with different columns.
    """
    finished_settings, bugs = set(journal.finished_settings()), list[str]()
    resumed_count, failed = len(finished_settings), sum(bool(entry.error) for entry in journal.entries())
    known_entry = next((entry for entry in journal.entries() if not entry.error), None)
    if known_entry is not None:
        check_columns(view, grid, known_entry.row)
    on_progress(resumed_count, len(grid), _note(failed))
    remaining_settings = [setting for setting in range(len(grid)) if setting not in finished_settings]
    processes = min(pool.processes, len(remaining_settings))
    for answers_done, (entry, bug) in enumerate(_outcomes(grid, remaining_settings, processes, pool.outputs), 1):
        journal.append(entry)
        if known_entry is None and not entry.error:
            known_entry = entry
            check_columns(view, grid, entry.row)  # on an error the journal is kept, so another --columns can resume
        failed += bool(entry.error)
        bugs += [bug] if bug else []
        on_progress(resumed_count + answers_done, len(grid), _note(failed))
    return _Counts(resumed_count, failed, processes, tuple(bugs))


def _note(failed: int) -> str:
    """Return a phrase such as "3 without an answer" about failed settings; empty for 0."""
    return f"{failed:,} without an answer" if failed else ""


def _outcomes(
    grid: Grid, settings: Sequence[int], processes: int, outputs: Outputs
) -> Iterator[tuple[JournalEntry, str]]:
    """Estimate settings in several processes. Yield each result of `estimate_setting` as soon as it is known.

    Args:
        grid: All settings.
        settings: Indices of the settings to estimate.
        processes: Number of processes.
        outputs: Function that runs a task in these processes.
    """
    task = Task(
        function=estimate_setting,
        arguments=lambda setting: (setting, grid.request(setting)),
        owner="the sweep",
        start_remedy="finished settings are saved: free memory or use fewer --jobs, and give the same command again",
        kill_remedy="if memory ran out, sweep again with fewer --jobs",
    )
    for setting, output in outputs(Queue(grid.groups(settings)), processes, task):
        killed = isinstance(output, KilledItem)
        yield (JournalEntry(setting=setting, error=output.reason), "") if killed else output


def _digest(grid: Grid) -> str:
    """Return a digest of everything that affects the results of a sweep.

    This includes the settings, the models, the contents of named files, and the wse version.
    """
    digests: dict[str, Any] = {}
    for axis in grid.axes:
        if known_fields()[axis.name] is not str:
            continue
        for value in axis.values:
            if axis.name == "model":
                digests[f"model {value}"] = repr(asdict(load_model(str(value), with_weights=False).spec))
            elif path_exists(str(path := file_of(str(value)))) and path.is_file():
                content = read_file(path, NAMED_FILE_LIMIT_BYTES, BadInput)
                digests[f"{axis.name} {value}"] = hashlib.sha256(content).hexdigest()
    axes = [[axis.name, axis.values] for axis in grid.axes]
    return hashlib.sha256(json.dumps([wse.__version__, axes, digests]).encode()).hexdigest()
