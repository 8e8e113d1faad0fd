"""``wse compare MODEL --gpu``: wafers and GPUs side by side, speed of a user against cost of a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wse.errors import DoesNotFit
from wse.reports.as_json import Report
from wse.reports.progress import OnProgress, ignore
from wse.serving.prices import prices_without_gpus
from wse.serving.tiers import PLAIN_SPEED_TOKENS_PER_S
from wse.studies.compare.curve.frontier import with_best
from wse.studies.compare.curve.points import curve_rows
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.curve.verdict import curve_verdict
from wse.studies.compare.grid.combination import CombinationRows
from wse.studies.compare.grid.rows import assumptions_of, distinct_rows
from wse.studies.compare.grid.study import Grid, grid_inputs, grid_of, wafer_size
from wse.studies.compare.machine import WAFER, Machine, gpu_machine, prepared_gpus
from wse.studies.compare.request import CompareRequest, check
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.options.option import replace_options
from wse.studies.results.published import EstimatedSpeed, PublishedSpeed, public_points, published_speeds
from wse.studies.workers.engine_pool import engine_pool


def curve(
    request: CompareRequest,
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> CurveResult:
    """Return the rows of wafers and GPUs as users vary, and the verdict; by default with the links of the wafers.

    Arguments and errors are those of `wse.studies.compare.grid.study.compare`.

    Raises:
        BadInput: The GPUs cannot be used.
        DoesNotFit: The model does not fit the GPUs.
    """
    check(request)
    serving, impossible = prepared_gpus(request)
    if not serving:
        raise _does_not_fit(impossible)
    fewest: dict[str, PreparedGpuEstimate] = {}
    for one in serving:
        fewest.setdefault(one.gpu, one)
    prepared = tuple(fewest.values())
    plain_speed = request.plain_speed_tokens_per_s or PLAIN_SPEED_TOKENS_PER_S
    gpus = [gpu_machine(one) for one in prepared]
    price = prices_without_gpus(request.base.costs.price, request.gpu or ())
    own = replace(request, own_link=True, base=replace_options(request.base, price=price))
    with engine_pool(engine, jobs) as pool:
        grid = grid_of(own, on_progress, pool)
    wafers = list(wafer_machines(grid.results))
    impossible_wafers = dict(_impossible(grid.results))
    if not wafers:
        raise _does_not_fit(impossible_wafers)
    machines: list[Machine] = [*wafers, *gpus]
    economics = assumptions_of(grid.first.economics)
    for gpu in gpus:
        economics |= assumptions_of(gpu.deployment.economics, gpu.name)
    rows = with_best([row for machine in machines for row in curve_rows(machine, plain_speed)])
    return CurveResult(
        inputs={**_inputs(own, grid, prepared), "plain_speed": plain_speed},
        note="; ".join(filter(None, (grid.first.note, _four_bits_note(grid, prepared[0])))) or None,
        model=grid.model,
        wafer=wafer_size(grid.first),
        economics=economics,
        rows=rows,
        public=public_points(grid.first.spec),
        published=_published(grid, rows),
        impossible={**impossible_wafers, **impossible} or None,
        verdict=curve_verdict(machines),
    )


def _does_not_fit(impossible: Mapping[str, str]) -> DoesNotFit:
    """Return the error where no wafers serve, or no GPUs, with the first of the reasons."""
    name, reason = next(iter(impossible.items()))
    return DoesNotFit(f"{name}: {reason}")


def _published(grid: Grid, rows: Sequence[CurveRow]) -> tuple[PublishedSpeed, ...] | None:
    """Return the published speeds on the wafer and on each GPU, next to the fastest row of that machine.

    That row is one with the fewest users: no user becomes faster with more of them.
    """
    fastest: dict[str, CurveRow] = {}
    for row in sorted(rows, key=lambda row: (row.users, -row.tokens_per_s_per_user)):
        fastest.setdefault(row.name, row)
    estimated = (
        EstimatedSpeed(
            machine=row.name,
            chips=None if row.kind == WAFER else row.chips,
            users=row.users,
            dtype=row.dtype,
            tokens_per_s_per_user=row.tokens_per_s_per_user,
        )
        for row in fastest.values()
    )
    speeds = (published_speeds(grid.first.spec, speed) or () for speed in estimated)
    return tuple(speed for of_machine in speeds for speed in of_machine) or None


def _four_bits_note(grid: Grid, prepared: PreparedGpuEstimate) -> str:
    """Return a sentence where a type of 4 bits applies to other layers on wafers than on GPUs; "" where it does not."""
    spec, weights = grid.first.spec, prepared.server.weights
    if spec.experts is None or not weights.is_of_four_bits or weights.name == spec.packing.method:
        return ""
    return f"{weights.name} is the type of all linear layers on wafers, of the routed experts alone on GPUs"


def wafer_machines(results: Iterable[CombinationRows]) -> Iterator[Machine]:
    """Return the machines of combinations that can be, each layout once."""
    pairs = [pair for result in results for pair in zip(result.rows, result.machines, strict=False)]
    machines = (pairs[position][1] for position in distinct_rows([row for row, _ in pairs]))
    return (machine for machine in machines if isinstance(machine, Machine))


def _impossible(results: Iterable[CombinationRows]) -> Iterator[tuple[str, str]]:
    """Combinations that cannot be, or serve nobody, with the reason."""
    for result in results:
        reasons = [m for m in result.machines if isinstance(m, str)]
        for row in result.rows:
            reason = row.reason or next(iter(reasons), None)
            if reason is not None:
                yield f"{row.mapping} on {row.wafers:,}", reason


def _inputs(request: CompareRequest, grid: Grid, gpus: Sequence[PreparedGpuEstimate]) -> Report:
    return {
        **grid_inputs(request, grid),
        "gpu": [prepared.gpu for prepared in gpus],
        "gpus": [prepared.server.parallelism.gpus for prepared in gpus],
        "stack": gpus[0].stack,
        "parallelism": gpus[0].parallelism,
    }
