"""The commands of wse as Python functions, with typed results and without printed output.

Arguments and defaults are the same as on the command line: the option ``--new-tokens`` is the
argument ``new_tokens``. Errors are defined in `wse.errors`.

Functions whose arguments are the options of a command are defined in the file ``api.py`` of their
study and imported here. The shorter functions are defined in this file. Each function imports the
code of its study when it is called, which keeps ``import wse`` fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.errors import BadInput
from wse.reports.progress import OnProgress, ignore
from wse.studies.compare.api import compare
from wse.studies.compile.api import compile
from wse.studies.endpoint.api import serve
from wse.studies.estimate.api import estimate
from wse.studies.options.arguments import checks_arguments
from wse.studies.options.engine import LOCAL, EngineChoice
from wse.studies.pattern.api import pattern
from wse.studies.run.api import run
from wse.studies.serve_sim.api import serve_sim
from wse.studies.what_if.api import what_if

if TYPE_CHECKING:
    from wse.studies.claims.result import ClaimsResult
    from wse.studies.explore.study import ExploreResult
    from wse.studies.scenario.result import ScenarioResult
    from wse.studies.sweep.result import SweepResult
    from wse.studies.validate.agreement.result import Agreement
    from wse.studies.validate.result import Validation
    from wse_traces.reader.read import Trace

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
    "serve",
    "serve_sim",
    "sweep",
    "validate",
    "what_if",
]


@checks_arguments()
def claims(
    *numbers: int,
    page: str | Path | None = None,
    png: str | Path | None = None,
    price: str | Mapping[str, float] | None = None,
    on_progress: OnProgress | None = None,
) -> ClaimsResult:
    """Check claims about fast inference on wafers and GPUs, as ``wse claims`` does.

    Example:
        claim = wse.claims(8).claims[0]
        claim.verdict, claim.answer, claim.numbers["batch_llama_3_1_70b_h200"].value

    Args:
        numbers: Numbers of the claims to check, from 1. Without numbers, all claims are checked.
        page: Markdown file to write, a page on all claims. The plots are written next to it.
        png: Image file to write, the plot of a single claim.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range.
        on_progress: Called with (claims done, total claims, current computation).
    """
    from wse.studies.claims.study import decide_to_files

    return decide_to_files(numbers, on_progress or ignore, page=page, png=png, price=price)


@checks_arguments()
def scenario(
    source: Mapping[str, Any] | str | Path,
    *,
    html: str | Path | None = None,
    png: str | Path | None = None,
    price: str | Mapping[str, float] | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> ScenarioResult:
    """Find the settings that agree with published figures, as ``wse scenario`` does.

    Example:
        result = wse.scenario("fast-mode")
        print(*result.verdict, sep="\\n")

    Args:
        source: Name of a bundled scenario, a TOML file, or a mapping with the content of such a
            file.
        html: HTML file to write, a page with tables and drawings.
        png: Image file to write, with the drawings.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range. It overrides the table [prices] of the
            file.
        jobs: Number of processes. None uses all cores.
        on_progress: Called with (placements done, total placements, current placement).
    """
    from wse.studies.scenario.files import answer_to_files

    return answer_to_files(source, on_progress or ignore, html=html, png=png, price=price, jobs=jobs)


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
    """Estimate every combination of settings and write a table, as ``wse sweep`` does.

    Example:
        wse.sweep({"model": "llama-3-8b", "dtype": ["fp8", "int4"]}, output="table.csv")

    Args:
        source: Values by field, such as ``{"model": "story", "batch": [1, 8]}``, where a list is an
            axis. Or a TOML file with such a grid, or a model. A field is an argument of `estimate`
            or a number of a wafer or its software, such as ``wafer.hop_cycles``.
        sets: Additional axes as strings in the form of ``--set``, such as ``batch=1,8``. Allowed
            only if ``source`` is a file or a model.
        output: Table to write, a ``.csv`` or ``.parquet`` file.
        jobs: Number of processes. None uses all cores.
        engine: ``ray`` runs on the workers of a Ray cluster instead of processes on this computer.
        ray_address: Address of the cluster, HOST:PORT or ``auto``. None starts a cluster on this
            machine.
        restart: True to discard the results of an interrupted sweep with the same table. False to
            continue that sweep.
        columns: Columns of `rows` in addition to the axes: dtype, prompt, new, wafers, users,
            replicas, ttft, user, low, high, throughput, fits, cost, or names of columns of the
            table. None shows all named here except replicas.
        sort: Column to sort the rows by, best value first, or smallest first if no value is better.
            ``NAME:down`` puts the largest value first.
        top: Maximum number of rows. None shows 20.
        png: Image file to write, a plot of the table over one axis.
        x: Axis of the plot. None uses the axis with the most values.
        every_column: Whether the table also has evidence grades and, in words, the assumptions
            behind the numbers.
        on_progress: Called with (settings done, total settings, a note on settings without an
            answer).
    """
    from wse.studies.sweep.request import read_grid, sweep_picture
    from wse.studies.sweep.shown import sweep_view
    from wse.studies.sweep.study import sweep as study

    choice = EngineChoice(engine, ray_address)
    return study(
        read_grid(source, sets),
        Path(output),
        jobs=jobs,
        engine=choice,
        restart=restart,
        every_column=every_column,
        view=sweep_view(columns, sort, top),
        png=sweep_picture(None if png is None else str(png), x),
        x=x,
        on_progress=on_progress or ignore,
    )


@checks_arguments()
def explore(table: str | Path, *, output: str | Path | None = None) -> ExploreResult:
    """Write a page that plots the columns of a CSV table, as ``wse explore`` does.

    Example:
        wse.explore("wse-sweep.csv").page

    Args:
        table: CSV file, such as `sweep` writes.
        output: HTML page to write. None writes it next to the table, with the suffix ``.html``.
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
    """Predict published measurements and report the error of each, as ``wse validate`` does.

    Example:
        wse.validate().summary.median_abs_error_pct

    Args:
        files: CSV files of measurements. Without files, the bundled ones are used.
        capacity: ``report`` also predicts models whose layers exceed the SRAM of the PEs,
            ``refuse`` does not.
        against: ``wavelet`` compares the fabric model with the wavelet reference instead of
            measurements.
        on_progress: Called with (rows done, total rows, current kernel).
    """
    if against is not None:
        return _agreement(against, on_progress or ignore, has_measurement_options=bool(files) or capacity != "report")
    from wse.studies.validate.study import validate as study

    return study([Path(file) for file in files], capacity=capacity, on_progress=on_progress or ignore)


def _agreement(reference: str, on_progress: OnProgress, *, has_measurement_options: bool) -> Agreement:
    """Compare the fast timing model of the fabric with a reference model on random patterns.

    Args:
        reference: Name of the reference model; only ``wavelet`` is known.
        on_progress: Called with the progress of the comparison.
        has_measurement_options: Whether the caller gave options that only apply to measurements.

    Raises:
        BadInput: ``has_measurement_options`` is true, or the reference is unknown.
    """
    from wse.studies.validate.agreement.against_wavelet import agreement, check_reference

    check_reference(reference)
    if has_measurement_options:
        raise BadInput(f"against {reference}: compares two models, no measurements; leave out files and capacity")
    return agreement(on_progress)


@checks_arguments()
def open_trace(path: str | Path) -> Trace:
    """Open a trace file for reading, even if its run is unfinished or was killed.

    Use the result as a context manager.

    Example:
        with wse.open_trace("wse-run.h5") as trace:
            print(trace.header.model, trace["tokens/cycles"][:])

    Args:
        path: File that ``wse run`` or ``wse estimate --trace`` wrote.

    Raises:
        BadTrace: The file is missing, damaged, or not a trace.
    """
    from wse.errors import BadTrace
    from wse_traces import open_trace as open_trace_file
    from wse_traces.errors import TraceError

    try:
        return open_trace_file(Path(path))
    except TraceError as error:
        raise BadTrace(str(error)) from error
