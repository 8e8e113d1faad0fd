"""A grid of estimates, on all cores, that can be stopped and goes on where it was: what ``wse sweep`` does."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import wse
from wse.errors import BadInput, WseBug
from wse.files import read_file
from wse.models.load import load_model
from wse.report.progress import SWEEPING, duration, progress_on
from wse.report.result import Doc, Result
from wse.report.table import Table, pair_table
from wse.report.terminal import WIDEST, count, plural
from wse.request.engine_option import THIS_MACHINE, EngineChoice
from wse.studies.sweep.fields import known_fields
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.journal import Journal
from wse.studies.sweep.row import Outcome, estimate_setting, failed_outcome
from wse.studies.sweep.table import check_table_path, write_table
from wse.studies.workers.engine_pool import Outputs, engine_pool
from wse.studies.workers.pool import KilledItem, Queue, Task

NAMED_FILE_LIMIT_BYTES: Final = 2**28

OnRow = Callable[[int, int], None]


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

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """The file of the table, the number of its settings, and the time that they took."""
        jobs = f"{self.jobs:,} process{'' if self.jobs == 1 else 'es'}"
        resumed = f", {count(self.settings_resumed)} of them done before" if self.settings_resumed else ""
        rows = [
            ("table", self.table),
            ("settings", count(self.settings) + resumed),
            ("time", f"{duration(self.wall_s)}: {count(self.settings_per_s)} a second by {jobs}"),
        ]
        if self.settings_failed:
            rows.append(("no answer", f"{plural(self.settings_failed, 'setting')}: see the column error"))
        return (pair_table(rows, "Sweep"),)


def sweep(
    grid: Grid,
    table: Path,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
    restart: bool = False,
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
        on_row: Called with (done, without an answer) at the start and after each setting.

    Raises:
        BadInput: the table cannot be written, another sweep is writing it, or the one that began it had other settings.
        WseBug: a setting ended in a bug of ours; the table is written, with that in its row.
    """
    check_table_path(table)
    began = time.perf_counter()
    bugs: list[str] = []
    with (
        engine_pool(engine, jobs) as pool,
        Journal(table, _digest(grid), len(grid), restart=restart) as journal,
    ):
        finished = set(journal.finished_settings())
        before, failed = len(finished), sum(bool(entry.error) for entry in journal.entries())
        on_row(before, failed)
        remaining = [setting for setting in range(len(grid)) if setting not in finished]
        processes = min(pool.processes, len(remaining))
        for answers_done, answered in enumerate(_outcomes(grid, remaining, processes, pool.outputs), 1):
            journal.append(answered.setting, answered.line)
            failed += answered.failed
            bugs += [answered.bug] if answered.bug else []
            on_row(before + answers_done, failed)
        write_table(grid, journal.entries, table)
        journal.remove()
    if bugs:
        message = f"{len(bugs)} settings ended in a bug; the table {table} has the others. The first:\n{bugs[0]}"
        raise WseBug(message)
    wall_s = time.perf_counter() - began
    return SweepResult(
        table=str(table),
        settings=len(grid),
        settings_failed=failed,
        settings_resumed=before,
        jobs=processes,
        wall_s=wall_s,
        settings_per_s=len(remaining) / wall_s,
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
            elif Path(str(value)).is_file():
                content = read_file(Path(str(value)), NAMED_FILE_LIMIT_BYTES, BadInput)
                digests[f"{axis.name} {value}"] = hashlib.sha256(content).hexdigest()
    axes = [[axis.name, axis.values] for axis in grid.axes]
    return hashlib.sha256(json.dumps([wse.__version__, axes, digests]).encode()).hexdigest()
