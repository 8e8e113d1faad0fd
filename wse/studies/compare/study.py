"""Comparisons of machines and layouts for one model: the study behind all of them, and output.

A comparison that was made before comes from the cache on disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TextIO

from wse.cache.records import cached
from wse.reports.progress import OnProgress
from wse.reports.terminal_table import print_result
from wse.studies.compare.checks import check_question
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.study import curve
from wse.studies.compare.grid.questions import answer
from wse.studies.compare.grid.study import compare
from wse.studies.compare.plan.result import PlanResult
from wse.studies.compare.plan.study import plan_machines
from wse.studies.compare.request import CompareRequest
from wse.studies.compare.result import CompareResult
from wse.studies.compare.summary import print_comparison, print_curve
from wse.studies.estimate.cached import request_key
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.workers.engine_pool import engine_pool


def compare_machines(
    request: CompareRequest,
    question: str | None,
    on_progress: OnProgress,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> CompareResult | CurveResult | PlanResult:
    """Compare machines and layouts for one model.

    The options of the request determine the type of comparison:

    1. If users, targets or an objective are requested, machines are ranked.
    2. Otherwise, if GPUs are requested, wafers are compared with GPUs.
    3. Otherwise, wafer counts, mappings and inter-wafer links are compared.

    The result may come from the cache on disk.

    Args:
        request: The model and the machines.
        question: A question about wafers that the third type of comparison answers, or None.
        on_progress: Called with (combinations done, total number of combinations, last
            combination).
        jobs: Number of processes. None uses all cores, or all CPUs of a cluster. With one process
            on this computer, no other process is started.
        engine: Engine that runs the processes.

    Raises:
        BadInput: A name or file in the request cannot be used, or options contradict each other.
        DoesNotFit: The model fits on none of the machines.
    """
    kind = PlanResult if request.is_ranked else CompareResult if request.gpu is None else CurveResult
    without_lengths = replace(request, targets=replace(request.targets, lengths=None))  # "128/64" is no path
    key = request_key("compare", without_lengths, question, request.targets.lengths)
    return cached(key, kind, lambda: _compare(request, question, on_progress, jobs, engine))


def _compare(
    request: CompareRequest, question: str | None, on_progress: OnProgress, jobs: int | None, engine: EngineChoice
) -> CompareResult | CurveResult | PlanResult:
    """Compare machines and layouts. Arguments and errors are those of `compare_machines`."""
    base = replace(request.base, workload=request.base.workload.with_named_lengths())
    request = replace(request, base=base)
    check_question(question, request)  # before processes are started
    with engine_pool(engine, jobs) as pool:
        if request.is_ranked:
            return plan_machines(request, on_progress, pool)
        if request.gpu is not None:
            return curve(request, on_progress, pool)
        if question is not None:
            return answer(question, request, on_progress, pool)
        return compare(request, on_progress, pool)


def print_machines(result: CompareResult | CurveResult | PlanResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print a comparison or ranking of machines for one model.

    Args:
        result: Comparison of wafers, comparison of wafers with GPUs, or ranking of machines.
        stream: Text stream to print to.
        detail: Whether to also print all rows and, for comparisons, assumptions and options.
    """
    if isinstance(result, CompareResult):
        print_comparison(result, stream, detail=detail)
    elif isinstance(result, CurveResult):
        print_curve(result, stream, detail=detail)
    else:
        print_result(result, stream, detail=detail)
