"""A grid of estimates, on all cores, that can be stopped and goes on where it was: what ``wse sweep`` does."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import wse
from wse.errors import BadInput, WseBug
from wse.files import read_file
from wse.models.load import load_model
from wse.plugins import file_of
from wse.reports.output_file import write_output
from wse.reports.terminal import plural
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.sweep.fields import known_fields
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.journal import Journal
from wse.studies.sweep.plot import as_png, check_axis
from wse.studies.sweep.progress import OnRow
from wse.studies.sweep.request import Picture
from wse.studies.sweep.result import SweepResult
from wse.studies.sweep.row import Entry, Outcome, estimate_setting, failed_outcome
from wse.studies.sweep.shown import SweepView, check_columns, check_view, prices_of, shown_rows
from wse.studies.sweep.table import check_table_path, write_table
from wse.studies.workers.engine_pool import Outputs, Pool, engine_pool
from wse.studies.workers.pool import KilledItem, Queue, Task

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
        WseBug: a setting ended in a bug in wse; the table is written, with that in its row.
    """
    check_table_path(table)
    check_view(view)
    axis = None if picture is None else check_axis(grid, picture.axis)
    began = time.perf_counter()
    with (
        engine_pool(engine, jobs) as pool,
        Journal(table, _digest(grid), len(grid), restart=restart) as journal,
    ):
        done = _finish(grid, journal, pool, view, on_row)
        write_table(grid, journal.entries, table, every_column=every_column)
        rows, prices = shown_rows(grid, journal.entries(), view), prices_of(journal.entries())
        if picture is not None and axis is not None:
            write_output("--png", picture.path, as_png(grid, journal.entries(), axis))
        journal.remove()
    if done.bugs:
        message = (
            f"{len(done.bugs)} settings ended in a bug; the table {table} has the others. The first:\n{done.bugs[0]}"
        )
        raise WseBug(message)
    if done.failed == len(grid):
        failed = plural(done.failed, "setting")
        message = f"none of {failed} has an answer; the first: {rows[0].error} (the table {table} has all)"
        raise BadInput(message)
    wall_s = time.perf_counter() - began
    return SweepResult(
        table=str(table),
        settings=len(grid),
        settings_failed=done.failed,
        settings_resumed=done.before,
        jobs=done.processes,
        wall_s=wall_s,
        settings_per_s=(len(grid) - done.before) / wall_s,
        columns=view.columns,
        rows=rows,
        prices=prices,
        png=None if picture is None else str(picture.path),
    )


class _Done(NamedTuple):
    """Settings that were done before, and without an answer; the processes that did the others, and our bugs."""

    before: int
    failed: int
    processes: int
    bugs: tuple[str, ...]


def _finish(grid: Grid, journal: Journal, pool: Pool, view: SweepView, on_row: OnRow) -> _Done:
    """Write the settings into a journal that are not there yet."""
    finished, bugs = set(journal.finished_settings()), list[str]()
    before, failed = len(finished), sum(bool(entry.error) for entry in journal.entries())
    known = next((entry for entry in journal.entries() if not entry.error), None)
    if known is not None:
        check_columns(view, grid, known.row)
    on_row(before, failed)
    remaining = [setting for setting in range(len(grid)) if setting not in finished]
    processes = min(pool.processes, len(remaining))
    for answers_done, answered in enumerate(_outcomes(grid, remaining, processes, pool.outputs), 1):
        journal.append(answered.setting, answered.line)
        if known is None and not answered.failed:
            known = Entry.model_validate_json(answered.line)
            check_columns(view, grid, known.row)  # what is done is kept, so that another --columns goes on from there
        failed += answered.failed
        bugs += [answered.bug] if answered.bug else []
        on_row(before + answers_done, failed)
    return _Done(before, failed, processes, tuple(bugs))


def _outcomes(grid: Grid, settings: Sequence[int], processes: int, outputs: Outputs) -> Iterator[Outcome]:
    """Yield the outcomes of some settings, in the order in which they are done."""
    task = Task(
        function=estimate_setting,
        arguments=lambda setting: (setting, grid.request(setting)),
        owner="the sweep",
        start_remedy="what is done is kept: free some memory or take fewer --jobs, and give the same command again",
        kill_remedy="if memory ran out, sweep again with fewer --jobs",
    )
    for setting, output in outputs(Queue(grid.groups(settings)), processes, task):
        yield failed_outcome(setting, output.reason) if isinstance(output, KilledItem) else output


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
