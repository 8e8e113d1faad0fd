"""The study behind ``wse compare MODEL --gpu``: wafers and GPUs by speed per user and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wse.reports.progress import OnProgress
from wse.reports.result import Report
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.serving.plan import users_at_speed
from wse.serving.prices import prices_without_gpus
from wse.studies.compare.curve.certainty import certainty_of
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import FAST, PLAIN, TIER_SEPARATOR, CurveRow, with_best
from wse.studies.compare.curve.samples import figures_of, sampled_machines
from wse.studies.compare.curve.verdict import curve_verdict
from wse.studies.compare.grid.combination import CombinationRows
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.grid.study import Grid, grid_inputs, grid_of, wafer_size
from wse.studies.compare.machine import Machine, does_not_fit, prepared_gpus
from wse.studies.compare.published import published_of_rows
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.estimate.ranges.sampled_figures import intervals_of
from wse.studies.options.option import replace_options
from wse.studies.results.operating_points import user_counts
from wse.studies.results.published import public_points
from wse.studies.workers.engine_pool import Pool


def curve_rows(machine: Machine, samples: Sequence[Machine], plain_tokens_per_s: float) -> tuple[CurveRow, ...]:
    """Return the speed, cost and energy of a machine for various user counts, fewest first.

    The user counts are powers of two up to the maximum useful count: the number of users that
    saturates the machine, or the number that fits if it is smaller. Two counts are added for the
    service tiers: the maximum number of users at the plain speed, and the maximum number at
    `FAST_TIMES` the plain speed.

    Args:
        machine: The machine, which must have room for at least one user.
        samples: Copies of the machine, one for each random sample of the uncertain constants. The
            90 % intervals of the rows are computed from them.
        plain_tokens_per_s: Plain speed in tokens/s per user.
    """
    users = machine.useful_users
    speeds = {PLAIN: plain_tokens_per_s, FAST: FAST_TIMES * plain_tokens_per_s}
    tiers = {tier: users_at_speed(machine.point, users, speed) for tier, speed in speeds.items()}
    counts = sorted({*user_counts(users, users), *(count for count in tiers.values() if count)})
    names = {count: TIER_SEPARATOR.join(tier for tier, users in tiers.items() if users == count) for count in counts}
    return tuple(curve_row(machine, samples, count, names[count] or None) for count in counts)


def curve_row(machine: Machine, samples: Sequence[Machine], users: int, tier: str | None = None) -> CurveRow:
    """Return a row with a machine's speed, cost and energy when it serves ``users`` users.

    Args:
        machine: The machine. Its price and power must be known.
        samples: Copies of the machine, one for each random sample of the uncertain constants. The
            90 % intervals of the row are computed from them.
        users: Number of concurrent users.
        tier: ``plain``, ``fast`` or both if a service tier has this number of users; otherwise
            None.
    """
    point = machine.point(users)
    cost, energy = point.usd_per_million_tokens, point.joules_per_token
    assert cost is not None  # machines of a comparison have prices
    assert energy is not None
    row = CurveRow.from_parts(
        machine,
        point,
        machine=machine.text,
        chips=machine.deployment.chips,
        users=users,
        tokens_per_s_per_user=point.tokens_per_s_per_user or 0.0,
        tier=tier,
        **cost.with_ends("usd_per_million_tokens"),
        **energy.with_ends("joules_per_token"),
    )
    return replace(row, ranges=intervals_of(row, figures_of(samples, users)))


def curve(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CurveResult:
    """Compare the speed and cost of wafers and GPUs for various user counts.

    1. For each GPU type, determine the numbers of GPUs that can serve a user.
    2. Compile the model on all combinations of wafers, mappings and inter-wafer links. By default,
       only the wafers' own link is used.
    3. Compute the speed and cost of all machines for various user counts, with their intervals, and
       derive the verdict.

    Args:
        request: The model and the machines.
        on_progress: Called with (combinations done, total number of combinations, last
            combination).
        pool: Processes that compile the combinations of wafers.

    Raises:
        BadInput: The GPUs cannot be used, or the request is invalid as for
            `wse.studies.compare.grid.study.compare`.
        DoesNotFit: The model fits on none of the wafers, or on none of the GPUs.
    """
    # 1. GPUs.
    gpus, impossible_gpus = prepared_gpus(request)
    if not gpus:
        raise does_not_fit(impossible_gpus)
    plain_speed = request.plain_speed_tokens_per_s or PLAIN_SPEED_TOKENS_PER_S
    price = prices_without_gpus(request.base.costs.price, request.gpu or ())
    # 2. Wafers.
    wafer_request = replace(request, own_link=True, base=replace_options(request.base, price=price))
    grid = grid_of(wafer_request, on_progress, pool)
    wafers = [result.machine for result in grid.distinct_rows if isinstance(result.machine, Machine)]
    impossible_wafers = dict(_impossible_combinations(grid.results))
    if not wafers:
        raise does_not_fit(impossible_wafers)
    # 3. Operating points.
    samples = {machine: sampled_machines(machine) for machine in (*wafers, *gpus)}
    economics = assumptions_of(grid.first.economics)
    for gpu in gpus:
        economics |= assumptions_of(gpu.deployment.economics, gpu.name)
    rows = with_best([row for machine, sampled in samples.items() for row in curve_rows(machine, sampled, plain_speed)])
    best_texts = {row.machine for row in rows if row.best}
    certainty = certainty_of(samples, [machine for machine in samples if machine.text in best_texts])
    return CurveResult(
        inputs={**_inputs(wafer_request, grid, [*gpus.values()]), "plain_speed": plain_speed},
        note="; ".join(filter(None, (grid.first.note, _four_bits_note(grid, next(iter(gpus.values())))))) or None,
        model=grid.model,
        wafer=wafer_size(grid.first),
        economics=economics,
        rows=rows,
        public=public_points(grid.first.spec),
        published=published_of_rows(grid.first.spec, rows),
        impossible={**impossible_wafers, **impossible_gpus} or None,
        certainty=certainty,
        verdict=curve_verdict(samples, certainty),
    )


def _four_bits_note(grid: Grid, prepared_estimate: PreparedGpuEstimate) -> str:
    """Return a note if a 4-bit type is used for more weights on wafers than on GPUs, else "".

    On wafers, such a type is used in all linear layers; on GPUs, only for the routed experts.
    """
    spec, weights = grid.first.spec, prepared_estimate.server.weights
    if spec.experts is None or not weights.is_of_four_bits or weights.name == spec.packing.method:
        return ""
    return f"{weights.name} is the type of all linear layers on wafers, of the routed experts alone on GPUs"


def _impossible_combinations(results: Iterable[CombinationRows]) -> Iterator[tuple[str, str]]:
    """Yield (combination, reason) for each combination that is impossible or cannot serve a user.

    The combination is described by text with the mapping and the number of wafers.
    """
    for result in results:
        for row, machine, _ in result.rows:
            if isinstance(machine, str):
                yield f"{row.mapping} on {row.wafers:,}", machine


def _inputs(request: CompareRequest, grid: Grid, gpus: Sequence[PreparedGpuEstimate]) -> Report:
    """Return the comparison's options with defaults filled in, keyed by option name."""
    return {
        **grid_inputs(request, grid),
        "gpu": [*dict.fromkeys(prepared_estimate.gpu for prepared_estimate in gpus)],
        "gpus": sorted({prepared_estimate.server.parallelism.gpus for prepared_estimate in gpus}),
        "stack": gpus[0].stack,
        "parallelism": gpus[0].parallelism,
    }
