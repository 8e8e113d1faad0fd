"""The commands as functions: the same arguments and defaults as the command line's, typed results, nothing printed.

An argument is an option with underscores (``--new-tokens`` is ``new_tokens``); ``help(wse.estimate)`` lists them with
their defaults and meanings, which are those of the classes of requests (`wse.request`). Errors are those of
`wse.errors`. Studies are imported when they are first asked for.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wse.errors import BadInput
from wse.request.compare_request import CompareRequest
from wse.request.estimate_request import EstimateRequest
from wse.request.option import RequestField, options_of, request_of
from wse.request.run_request import CompileRequest, RunRequest

if TYPE_CHECKING:
    from wse.inspect.query.compare import TracesResult
    from wse.studies.compare.result import CompareResult
    from wse.studies.compile.result import CompileResult
    from wse.studies.estimate.result import EstimateResult
    from wse.studies.run.result import RunResult
    from wse.studies.sweep.sweep import SweepResult
    from wse.validation.agreement.result import Agreement
    from wse.validation.result import Validation
    from wse_traces.read import Trace

R = TypeVar("R")

OnProgress = Callable[[int, int, str], None]
"""Called with the pieces that are done, how many there are, and the name of the one that begins."""


def _ignore(*details: object) -> None:
    """Do nothing with progress, text or warnings that nobody asked for."""


def _takes(request: type) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A decorator that gives a function of a request the request's options as arguments.

    The function's own keyword arguments stay; those of the request come before them, and all are in its signature and
    its docstring.
    """
    options = options_of(request)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        own = inspect.signature(function, eval_str=False)
        signature = _signature(options, own)

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> R:
            bound = signature.bind(*arguments, **named).arguments
            values = {name: value for name, value in bound.items() if name in options}
            rest = {name: value for name, value in bound.items() if name not in options}
            return function(request_of(request, values), **rest)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nArgs:\n{_documented(options, own)}\n"
        return call

    return decorate


def _signature(options: Mapping[str, RequestField], own: inspect.Signature) -> inspect.Signature:
    """The options, those that stand without a name first, and a function's own arguments behind the request."""
    named = inspect.Parameter.KEYWORD_ONLY
    first = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=_default(field), annotation=_annotation(field)
        )
        for name, field in options.items()
        if field.option.positional
    ]
    rest = [
        inspect.Parameter(name, named, default=_default(field), annotation=_annotation(field))
        for name, field in options.items()
        if not field.option.positional
    ]
    others = list(own.parameters.values())[1:]
    before = [parameter for parameter in others if parameter.kind is not named]
    callbacks = [parameter for parameter in others if parameter.kind is named]
    return own.replace(parameters=[*before, *first, *rest, *callbacks])


def _default(field: RequestField) -> Any:
    return inspect.Parameter.empty if field.option.required else field.default


def _annotation(field: RequestField) -> Any:
    """The type of an argument for people: that of its values, and None where it may be left open."""
    return field.type | None if field.default is None else field.type


def _documented(options: Mapping[str, RequestField], own: inspect.Signature) -> str:
    """The lines of a docstring that say what each argument is."""
    docs = {name: doc for name, doc in _OTHERS.items() if name in own.parameters}
    docs = {name: field.option.doc for name, field in options.items()} | docs
    wrapped = (
        textwrap.wrap(f"{name}: {doc}", 110, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, doc in docs.items()
    )
    return "\n".join(line for lines in wrapped for line in lines)


_OTHERS = {
    "on_text": "Called with the prompt's text and then each stretch of generated text, where there is one prompt.",
    "on_warning": "Called with what the user should know though the run goes on.",
    "on_progress": "Called with (done, all, name) as the work goes on.",
    "model": "A model as for `run`, or a trace.",
    "other": "The second trace, where the first argument is a trace.",
    "question": "one-wafer-or-many, pipeline-or-tensor or sram-or-streaming: the verdict on that.",
    "jobs": "Processes; all cores where None.",
}


@_takes(RunRequest)
def run(
    request: RunRequest,
    *,
    on_text: Callable[[str], None] = _ignore,
    on_warning: Callable[[str], None] = _ignore,
    on_progress: OnProgress = _ignore,
) -> RunResult:
    """Run a model on a virtual wafer: compile, execute, time and trace it. The result of ``wse run``."""
    from wse.studies.run.run import run as study

    return study(request, on_text=on_text, on_warning=on_warning, on_progress=on_progress)


@_takes(EstimateRequest)
def estimate(request: EstimateRequest, *, on_progress: OnProgress = _ignore) -> EstimateResult:
    """Estimate a model on full-size wafers from its config alone. The result of ``wse estimate``."""
    from wse.studies.estimate.estimate import estimate as study

    return study(request, on_progress=on_progress)


@_takes(CompileRequest)
def compile(request: CompileRequest) -> CompileResult:
    """Compile a model, and say where everything is; nothing is executed. The result of ``wse compile``."""
    from wse.studies.compile.compile import compile_request

    return compile_request(request)


@_takes(CompareRequest)
def compare(
    request: CompareRequest,
    model: str | Path,
    other: str | Path | None = None,
    *,
    question: str | None = None,
    jobs: int | None = None,
    on_progress: OnProgress = _ignore,
) -> CompareResult | TracesResult:
    """Set wafers, mappings and links side by side for one model, or two traces. The result of ``wse compare``."""
    from wse.inspect.query.compare import check_traces, compare_traces, is_trace
    from wse.studies.compare.grid import compare as study
    from wse.studies.compare.questions import answer

    named = [str(path) for path in (model, other) if path is not None]
    if len(named) > 1 or is_trace(named[0]):
        first, second = check_traces(named)
        economics = request.base.economics
        if question is not None or request != request_of(CompareRequest, {"economics": economics}):
            message = f"{' and '.join(named)}: two traces are compared; leave out the options of models"
            raise BadInput(message)
        return compare_traces(first, second, economics)
    request = replace(request, base=replace(request.base, model=named[0]))
    if question is not None:
        return answer(question, request, on_progress, jobs=jobs)
    return study(request, on_progress, jobs=jobs)


def sweep(
    source: Mapping[str, Any] | str | Path,
    sets: Sequence[str] = (),
    *,
    output: str | Path = "wse-sweep.csv",
    jobs: int | None = None,
    restart: bool = False,
    on_progress: OnProgress = _ignore,
) -> SweepResult:
    """Estimate every combination of some settings, and write one table. The result of ``wse sweep``.

    Args:
        source: Values by field, such as ``{"model": "story", "batch": [1, 8]}``, where a list is an axis; or a file
            with such a grid in TOML, or a model. A field is an argument of `estimate`, or a number of a wafer or of
            software, such as ``wafer.hop_cycles``.
        sets: Beside a file or a model, texts as of ``--set``, such as ``batch=1,8``.
        output: The table, a ``.csv`` or ``.parquet`` file.
        jobs: Processes; all cores where None.
        restart: Whether what an earlier sweep of this table has done is dropped.
        on_progress: Called with (settings done, all, how many have no answer).
    """
    from wse.studies.sweep.read_grid import grid_of, read_grid
    from wse.studies.sweep.sweep import sweep as study

    grid = grid_of(source) if isinstance(source, Mapping) else read_grid(str(source), sets)

    def on_row(done: int, failed: int) -> None:
        on_progress(done, len(grid), f"{failed} failed" if failed else "")

    return study(grid, Path(output), jobs=jobs, restart=restart, on_row=on_row)


def validate(
    *files: str | Path,
    capacity: str = "report",
    against: str | None = None,
    on_progress: OnProgress = _ignore,
) -> Validation | Agreement:
    """Predict published measurements, row by row, and say how far off that is. The result of ``wse validate``.

    Args:
        files: CSV files of measurements; those at hand where none is given.
        capacity: ``report`` predicts models whose layers do not all fit the SRAM of the PEs, ``refuse`` does not.
        against: ``wavelet`` compares the fast model with the cycle-by-cycle reference, not with measurements.
        on_progress: Called with (rows done, all, kernel).
    """
    if against is not None:
        return _agreement(against, on_progress, with_files=bool(files))
    from wse.validation.validate import validate as study

    return study([Path(file) for file in files], capacity=capacity, on_progress=on_progress)


def _agreement(reference: str, on_progress: OnProgress, *, with_files: bool) -> Agreement:
    from wse.validation.agreement.against_wavelet import EACH, SEED, agreement
    from wse.validation.agreement.table import check_against_option

    check_against_option(reference)
    if with_files:
        message = f"against {reference}: compares two models, no measurements; leave out the files"
        raise BadInput(message)
    return agreement(EACH, SEED, on_progress)


def open_trace(path: str | Path) -> Trace:
    """Open a trace to read it; a run that goes on or was killed too. Use as a context manager.

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
