"""``wse compare MODEL --gpu``: wafers and GPUs side by side, speed of a user against cost of a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wse.comparison.compare.combination import CombinationRows
from wse.comparison.compare.curve.frontier import with_best
from wse.comparison.compare.curve.gpus import GpuMachine, gpu_machines
from wse.comparison.compare.curve.machine import Machine, curve_of
from wse.comparison.compare.curve.public import public_points
from wse.comparison.compare.curve.result import CurveResult
from wse.comparison.compare.curve.verdict import curve_verdict
from wse.comparison.compare.curve.wafers import WaferMachine
from wse.comparison.compare.grid import Grid, grid_inputs, grid_of, wafer_size
from wse.comparison.compare.result import AssumptionResult
from wse.comparison.compare.rows import assumption_of, assumptions_of, without_duplicates
from wse.errors import DoesNotFit
from wse.report.as_json import Report
from wse.report.progress import OnProgress, ignore
from wse.request.compare_request import CompareRequest, check
from wse.request.engine_option import THIS_MACHINE, EngineChoice
from wse.studies.workers.engine_pool import engine_pool


def curve(
    request: CompareRequest,
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> CurveResult:
    """The rows of wafers and GPUs as users vary, and the verdict; links are the wafers' own unless they are given.

    Arguments and errors as of `wse.comparison.compare.grid.compare`; also BadInput and DoesNotFit where GPUs cannot be.
    """
    check(request)
    gpus = gpu_machines(request)
    own = replace(request, own_link=True)
    with engine_pool(engine, jobs) as pool:
        grid = grid_of(own, on_progress, pool)
    wafers = list(_wafer_machines(grid.results))
    impossible = dict(_impossible(grid.results))
    if not wafers:
        name, reason = next(iter(impossible.items()))
        message = f"{name}: {reason}; give a shorter --prompt-len and --new-tokens, or more --wafers"
        raise DoesNotFit(message)
    machines: list[Machine] = [*wafers, *gpus]
    rows = with_best([row for machine in machines for row in curve_of(machine)])
    return CurveResult(
        inputs=_inputs(own, grid, gpus),
        note=grid.first.note,
        model=grid.model,
        wafer=wafer_size(grid.first),
        economics=_assumptions(grid, gpus),
        rows=rows,
        public=public_points(grid.first.spec),
        impossible=impossible or None,
        verdict=curve_verdict(rows),
    )


def _wafer_machines(results: Iterable[CombinationRows]) -> Iterator[WaferMachine]:
    """The machines of combinations that can be, but for those of a mapping that chose another one of them."""
    pairs = [pair for result in results for pair in zip(result.rows, result.machines, strict=False)]
    kept = {id(row) for row in without_duplicates(row for row, _ in pairs)}
    return (machine for row, machine in pairs if id(row) in kept and isinstance(machine, WaferMachine))


def _impossible(results: Iterable[CombinationRows]) -> Iterator[tuple[str, str]]:
    """Combinations that cannot be, or serve nobody, with the reason."""
    for result in results:
        reasons = [m for m in result.machines if isinstance(m, str)]
        for row in result.rows:
            reason = row.reason or next(iter(reasons), None)
            if reason is not None:
                yield f"{row.mapping} on {row.wafers:,}", reason


def _inputs(request: CompareRequest, grid: Grid, gpus: Sequence[GpuMachine]) -> Report:
    prepared = gpus[0].prepared
    return {
        **grid_inputs(request, grid),
        "gpu": [machine.prepared.gpu for machine in gpus],
        "gpus": [machine.chips for machine in gpus],
        "stack": prepared.stack,
        "parallelism": prepared.parallelism,
    }


def _assumptions(grid: Grid, gpus: Sequence[GpuMachine]) -> dict[str, AssumptionResult]:
    """The assumptions about wafers, and by GPU those about GPUs."""
    of_gpus = {
        f"{key}.{machine.name}": assumption_of(number)
        for machine in gpus
        for key, number in machine.economics.sources.items()
    }
    return {**assumptions_of(grid.first.economics), **of_gpus}
