"""The commands as functions: the same arguments and defaults as the command line's, typed results, nothing printed.

An argument is an option with underscores (``--new-tokens`` is ``new_tokens``); ``help(wse.estimate)`` lists them with
their defaults and meanings, which are those of the classes of requests (`wse.request`). Errors are those of
`wse.errors`. Studies are imported when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.errors import BadInput
from wse.reports.progress import OnProgress, ignore
from wse.request.arguments import checks_arguments, takes_options_of
from wse.request.compare_request import CompareRequest, check_question
from wse.request.compile_request import CompileRequest
from wse.request.engine_option import LOCAL, EngineChoice
from wse.request.estimate_request import EstimateRequest
from wse.request.option import request_of
from wse.request.pattern_request import PatternRequest
from wse.request.run_request import RunRequest
from wse.request.serve_request import ServeRequest

if TYPE_CHECKING:
    from wse.studies.claims.result import ClaimsResult
    from wse.studies.compare.curve.result import CurveResult
    from wse.studies.compare.plan.result import PlanResult
    from wse.studies.compare.result import CompareResult
    from wse.studies.compare.traces import TracesComparison
    from wse.studies.compile.result import CompileResult
    from wse.studies.estimate.gpu_result import GpuEstimateResult
    from wse.studies.estimate.result import EstimateResult
    from wse.studies.explore.result import ExploreResult
    from wse.studies.pattern.result import PatternResult
    from wse.studies.run.result import RunResult
    from wse.studies.scenario.result import ScenarioResult
    from wse.studies.serve.result import ServeResult
    from wse.studies.sweep.sweep import SweepResult
    from wse.studies.validate.agreement.result import Agreement
    from wse.studies.validate.result import Validation
    from wse.studies.what_if.result import WhatIfResult
    from wse_traces.read import Trace


@takes_options_of(RunRequest)
def run(
    request: RunRequest,
    *,
    on_text: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_stored: OnProgress | None = None,
    on_progress: OnProgress | None = None,
    on_tokens: OnProgress | None = None,
) -> RunResult:
    """Run a model on a virtual wafer: compile, execute, time and trace it. The result of ``wse run``.

    Example:
        result = wse.run(prompt="One day, a little fox", new_tokens=64, trace=None)
        result.text, result.decode.tokens_per_s_per_user

    Args:
        on_text: Called with the prompt's text and then each stretch of generated text, where there is one prompt.
        on_warning: Called with what the user should know though the run goes on.
        on_stored: Called with (elements stored, all, the tile of the last) while weights are stored.
        on_progress: Called with (done, all, the kernel that begins) while kernels compile.
        on_tokens: Called with (tokens read and generated, the most, "") where ``on_text`` is not called.
    """
    from wse.studies.run.run import run as study

    return study(
        request,
        on_text=on_text or ignore,
        on_warning=on_warning or ignore,
        on_stored=on_stored or ignore,
        on_progress=on_progress or ignore,
        on_tokens=on_tokens or ignore,
    )


@takes_options_of(EstimateRequest)
def estimate(request: EstimateRequest, *, on_progress: OnProgress | None = None) -> EstimateResult | GpuEstimateResult:
    """Estimate a model on full-size wafers, or on GPUs, from its config alone. The result of ``wse estimate``.

    Example:
        result = wse.estimate("llama-3-8b", dtype="fp8")
        result.system.wafers, result.decode.tokens_per_s_per_user

    Args:
        on_progress: Called with (done, all, the part that begins).
    """
    from wse.request.gpu_estimate_request import check_machine
    from wse.studies.estimate.estimate import estimate as study

    check_machine(request)
    if request.gpu is not None:
        from wse.studies.estimate.gpus import estimate_on_gpus

        return estimate_on_gpus(request)
    return study(request, on_progress=on_progress or ignore)


@takes_options_of(EstimateRequest)
def what_if(
    request: EstimateRequest,
    *,
    changes: str | Sequence[str] = "default",
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> WhatIfResult:
    """Estimate a model as it is and with each of some changes of the machine: ``wse estimate --what-if``.

    Example:
        result = wse.what_if("llama-3-8b", changes=["clock=x2", "sram=x2"])
        [(row.change, row.factors["tokens_per_s_per_user"]) for row in result.changes]

    Args:
        changes: Texts such as ``clock=x2`` or ``wafer.hop_cycles=1``, or one with commas between; ``default`` has
            eight.
        jobs: Processes; all cores where None.
        on_progress: Called with (estimates done, all, the change that is done).
    """
    from wse.request.what_if_option import read_changes
    from wse.studies.what_if.study import check
    from wse.studies.what_if.study import what_if as study

    check(request)
    text = changes if isinstance(changes, str) else ",".join(changes)
    return study(request, read_changes(text), on_progress or ignore, jobs=jobs)


@takes_options_of(CompileRequest)
def compile(request: CompileRequest) -> CompileResult:
    """Compile a model and return the place of everything. Nothing is executed. The result of ``wse compile``.

    The placement and its cycles are those of `estimate` with the same arguments.

    Example:
        wse.compile("story", mesh="16x16").sram.bytes_per_pe
    """
    from wse.studies.compile.compile import compile_request

    return compile_request(request.base)


@takes_options_of(CompareRequest)
def compare(
    request: CompareRequest,
    model: str | Path,
    other: str | Path | None = None,
    *,
    question: str | None = None,
    jobs: int | None = None,
    engine: str = LOCAL,
    ray_address: str | None = None,
    on_progress: OnProgress | None = None,
) -> CompareResult | CurveResult | PlanResult | TracesComparison:
    """Set wafers and mappings, or wafers and GPUs, side by side for one model; or two traces: ``wse compare``.

    Example:
        result = wse.compare("llama-3-8b", wafers=[1, 2, 4])
        print(*result.verdict, sep="\\n")

    Args:
        model: A model as for `run`, or a trace.
        other: The second trace, where the first argument is a trace.
        question: one-wafer-or-many, pipeline-or-tensor or sram-or-streaming: the verdict on that.
        jobs: Processes; all cores where None.
        engine: ``ray`` has workers of a Ray cluster in place of this machine's processes.
        ray_address: The cluster, as HOST:PORT or ``auto``; one on this machine where None.
        on_progress: Called with (done, all, the combination that is done).
    """
    from wse.studies.compare.grid import compare as study
    from wse.studies.compare.questions import answer
    from wse.tracing.query.two_traces.compare import check_traces, compare_traces, is_trace

    paths = [str(path) for path in (model, other) if path is not None]
    if len(paths) > 1 or is_trace(paths[0]):
        first, second = check_traces(paths)
        economics, price = request.base.economics, request.base.price
        if question is not None or request != request_of(CompareRequest, {"economics": economics, "price": price}):
            message = f"{' and '.join(paths)}: two traces are compared; leave out the options of models"
            raise BadInput(message)
        from wse.studies.compare.traces import TracesComparison

        return compare_traces(first, second, economics, price).convert(TracesComparison)
    request = replace(request, base=replace(request.base, model=paths[0]))
    check_question(question, request)
    if request.is_ranked:
        from wse.studies.compare.plan.study import plan_machines

        return plan_machines(request, on_progress or ignore, jobs=jobs, engine=EngineChoice(engine, ray_address))
    if request.gpu is not None:
        from wse.studies.compare.curve.study import curve

        return curve(request, on_progress or ignore, jobs=jobs, engine=EngineChoice(engine, ray_address))
    if question is not None:
        return answer(question, request, on_progress or ignore, jobs=jobs, engine=EngineChoice(engine, ray_address))
    return study(request, on_progress or ignore, jobs=jobs, engine=EngineChoice(engine, ray_address))


@takes_options_of(ServeRequest)
def serve_sim(
    request: ServeRequest,
    *,
    timeline: str | Path | None = None,
    html: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> ServeResult:
    """Serve requests that arrive over time, event by event. The result of ``wse serve-sim``.

    Example:
        result = wse.serve_sim("llama-3-8b", load=0.9, ttft="100ms")
        result.load.stable, result.served.all.ttft.p99

    Args:
        timeline: A file for a timeline that Perfetto opens.
        html: A file for a page with tables and the queue over time.
        on_progress: Called with (requests served, all, what is done).
    """
    from wse.studies.serve.files import serve_to_files

    return serve_to_files(request, on_progress or ignore, timeline=timeline, html=html)


@takes_options_of(PatternRequest)
def pattern(
    request: PatternRequest, *, html: str | Path | None = None, on_progress: OnProgress | None = None
) -> PatternResult:
    """Compare patterns of a line: cycles, bounds, links, colours, checks. The result of ``wse pattern``.

    Example:
        result = wse.pattern(["chain", "mine.py:mine", function_of_yours], pes=[64], words=[1, 1024])
        result.cases[0].cycles, result.faults

    Args:
        html: A file for a page with the tables and the wavelets of small cases.
        on_progress: Called with (cases done, all, the case that begins).
    """
    from wse.studies.pattern.files import compare_to_files

    return compare_to_files(request, on_progress or ignore, html=html)


@checks_arguments
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


@checks_arguments
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
        source: A bundled scenario, a TOML file, or a mapping with what such a file holds.
        html: A file for a page with tables and drawings.
        png: A file for the drawings.
        jobs: Processes; all cores where None.
        on_progress: Called with (placements done, all, the one that is done).
    """
    from wse.studies.scenario.files import answer_to_files

    return answer_to_files(source, on_progress or ignore, html=html, png=png, jobs=jobs)


@checks_arguments
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
        engine: ``ray`` has workers of a Ray cluster in place of this machine's processes.
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
    from wse.studies.sweep.read_grid import grid_of, read_grid
    from wse.studies.sweep.shown import sweep_view
    from wse.studies.sweep.sweep import sweep as study
    from wse.studies.sweep.sweep import sweep_picture, without_answer

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


@checks_arguments
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


@checks_arguments
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
        against: ``wavelet`` compares the fast model with the cycle-by-cycle reference, not with measurements.
        on_progress: Called with (rows done, all, kernel).
    """
    if against is not None:
        return _agreement(against, on_progress or ignore, of_measurements=bool(files) or capacity != "report")
    from wse.studies.validate.validate import validate as study

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


@checks_arguments
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
