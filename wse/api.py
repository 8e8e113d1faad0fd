"""The commands as functions: the same arguments and defaults as on the command line, typed results, nothing printed.

An argument is an option with underscores: ``--new-tokens`` is ``new_tokens``. Errors are those of `wse.errors`. A
function that takes the options of a command is in the file ``api.py`` of its study; the shorter ones are here. What a
study needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.errors import BadInput
from wse.reports.progress import OnProgress, ignore
from wse.studies.compare.api import compare
from wse.studies.compile.api import compile
from wse.studies.estimate.api import estimate
from wse.studies.options.arguments import checks_arguments
from wse.studies.options.engine import LOCAL, EngineChoice
from wse.studies.pattern.api import pattern
from wse.studies.run.api import run
from wse.studies.serve.api import serve_sim
from wse.studies.what_if.api import what_if

if TYPE_CHECKING:
    from wse.studies.claims.result import ClaimsResult
    from wse.studies.explore.result import ExploreResult
    from wse.studies.scenario.result import ScenarioResult
    from wse.studies.sweep.result import SweepResult
    from wse.studies.validate.agreement.result import Agreement
    from wse.studies.validate.result import Validation
    from wse_traces.read import Trace

__all__ = [
    "claims",
    "compare",
    "compile",
    "estimate",
    "explore",
    "open_trace",
    "pattern",
    "run",
    "scenario",
    "serve_sim",
    "sweep",
    "validate",
    "what_if",
]


@checks_arguments()
def claims(
    *numbers: int, page: str | Path | None = None, png: str | Path | None = None, on_progress: OnProgress | None = None
) -> ClaimsResult:
    """Decide claims about fast inference, on wafers and on GPUs. The result of ``wse claims``.

    Example:
        claim = wse.claims(8).claims[0]
        claim.verdict, claim.answer, claim.numbers["batch_llama_3_1_70b_h200"].value

    Args:
        numbers: Those of the claims, from 1; all where none is given.
        page: A file for a Markdown page of the claims, with their plots beside it.
        png: A file for the plot of one claim.
        on_progress: Called with (claims decided, all, what is computed).
    """
    from wse.studies.claims.files import decide_to_files

    return decide_to_files(numbers, on_progress or ignore, page=page, png=png)


@checks_arguments()
def scenario(
    source: Mapping[str, Any] | str | Path,
    *,
    html: str | Path | None = None,
    png: str | Path | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> ScenarioResult:
    """Ask which settings agree with published figures. The result of ``wse scenario``.

    Example:
        result = wse.scenario("fast-mode")
        print(*result.verdict, sep="\\n")

    Args:
        source: A bundled scenario, a TOML file, or a mapping with what such a file contains.
        html: A file for a page with tables and drawings.
        png: A file for the drawings.
        jobs: Processes; all cores where None.
        on_progress: Called with (placements done, all, the one that is done).
    """
    from wse.studies.scenario.files import answer_to_files

    return answer_to_files(source, on_progress or ignore, html=html, png=png, jobs=jobs)


@checks_arguments()
def sweep(
    source: Mapping[str, Any] | str | Path,
    sets: str | Sequence[str] = (),
    *,
    output: str | Path = "wse-sweep.csv",
    jobs: int | None = None,
    engine: str = LOCAL,
    ray_address: str | None = None,
    restart: bool = False,
    columns: str | Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    png: str | Path | None = None,
    x: str | None = None,
    every_column: bool = False,
    on_progress: OnProgress | None = None,
) -> SweepResult:
    """Estimate every combination of some settings, and write one table. The result of ``wse sweep``.

    Example:
        wse.sweep({"model": "llama-3-8b", "dtype": ["fp8", "int4"], "batch": [1, 8]}, output="table.csv")

    Args:
        source: Values by field, such as ``{"model": "story", "batch": [1, 8]}``, where a list is an axis; or a file
            with such a grid in TOML, or a model. A field is an argument of `estimate`, or a number of a wafer or of
            software, such as ``wafer.hop_cycles``.
        sets: Beside a file or a model, a text as of ``--set``, such as ``batch=1,8``, or several.
        output: The table, a ``.csv`` or ``.parquet`` file.
        jobs: Processes; all cores where None.
        engine: ``ray`` has workers of a Ray cluster instead of this machine's processes.
        ray_address: The cluster, as HOST:PORT or ``auto``; one on this machine where None.
        restart: Whether what an earlier sweep of this table has done is dropped.
        columns: Columns of `rows` beside the axes: of dtype, wafers, users, ttft, user, throughput, fits, cost, or
            of the table; these where None.
        sort: The column whose best, or least, comes first; the most with ``NAME:down``.
        top: The most rows; 20 where None.
        png: A picture of it, over an axis.
        x: The axis of the picture; the one with the most values where None.
        every_column: Whether the table has grades and what numbers rest on, in words, too.
        on_progress: Called with (settings done, all, how many are without an answer, in words).
    """
    from wse.studies.sweep.progress import without_answer
    from wse.studies.sweep.request import grid_of, read_grid, sweep_picture
    from wse.studies.sweep.shown import sweep_view
    from wse.studies.sweep.study import sweep as study

    if isinstance(source, Mapping):
        if sets:
            message = f"sets={sets!r}: settings are given as a mapping; put these values into it"
            raise BadInput(message)
        grid = grid_of(source)
    else:
        grid = read_grid(str(source), [sets] if isinstance(sets, str) else sets)

    def on_row(done: int, failed: int) -> None:
        (on_progress or ignore)(done, len(grid), without_answer(failed))

    choice = EngineChoice(engine, ray_address)
    return study(
        grid,
        Path(output),
        jobs=jobs,
        engine=choice,
        restart=restart,
        every_column=every_column,
        view=sweep_view(columns, sort, top),
        picture=sweep_picture(None if png is None else str(png), x),
        on_row=on_row,
    )


@checks_arguments()
def explore(table: str | Path, *, output: str | Path | None = None) -> ExploreResult:
    """Write the page of a table, such as that of a sweep. The result of ``wse explore``.

    Example:
        wse.explore("wse-sweep.csv").page

    Args:
        table: A CSV file, as of `sweep`.
        output: The page; beside the table, with its name and ``.html``, where None.
    """
    from wse.studies.explore.study import explore as study

    return study(Path(table), None if output is None else Path(output))


@checks_arguments()
def validate(
    *files: str | Path,
    capacity: str = "report",
    against: str | None = None,
    on_progress: OnProgress | None = None,
) -> Validation | Agreement:
    """Predict published measurements, row by row, and say how far off that is. The result of ``wse validate``.

    Example:
        wse.validate().summary.median_abs_error_pct

    Args:
        files: CSV files of measurements; those at hand where none is given.
        capacity: ``report`` predicts models whose layers do not all fit the SRAM of the PEs, ``refuse`` does not.
        against: ``wavelet`` compares the fabric model with the cycle-by-cycle reference, not with measurements.
        on_progress: Called with (rows done, all, kernel).
    """
    if against is not None:
        return _agreement(against, on_progress or ignore, of_measurements=bool(files) or capacity != "report")
    from wse.studies.validate.study import validate as study

    return study([Path(file) for file in files], capacity=capacity, on_progress=on_progress or ignore)


def _agreement(reference: str, on_progress: OnProgress, *, of_measurements: bool) -> Agreement:
    from wse.studies.validate.agreement.against_wavelet import (
        CONFIGURATIONS_PER_PATTERN,
        SEED,
        agreement,
        check_reference,
    )

    check_reference(reference)
    if of_measurements:
        message = f"against {reference}: compares two models, no measurements; leave out files and capacity"
        raise BadInput(message)
    return agreement(CONFIGURATIONS_PER_PATTERN, SEED, on_progress)


@checks_arguments()
def open_trace(path: str | Path) -> Trace:
    """Open a trace to read it; a run that goes on or was killed too. Use as a context manager.

    Example:
        with wse.open_trace("wse-run.h5") as trace:
            print(trace.header.model, trace["tokens/cycles"][:])

    Args:
        path: A file that ``wse run`` or ``wse estimate --trace`` wrote.

    Raises:
        BadTrace: the file is missing, damaged, or no trace.
    """
    from wse.errors import BadTrace
    from wse_traces import open_trace as opened
    from wse_traces.errors import TraceError

    try:
        return opened(Path(path))
    except TraceError as error:
        raise BadTrace(str(error)) from error
