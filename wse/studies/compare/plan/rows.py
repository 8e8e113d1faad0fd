"""Rows of ranked machines: the layouts and replicas with which each machine serves the users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wse.arrays import F64
from wse.errors import BadInput, DoesNotFit
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.operating_point import Deployment
from wse.serving.plan import Plan, plan
from wse.studies.compare.grid.combination import Combination, with_link
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.machine import GPU, WAFER, Kind, no_room, prepared_gpus
from wse.studies.compare.plan.certainty import million_tokens_usd, share_within_limits
from wse.studies.compare.plan.result import PlannedRow, RowSamples
from wse.studies.compare.request import CompareRequest, WaferLink
from wse.studies.compare.result import AssumptionResult
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.ranked_layouts import LayoutRanking
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.ranges.sampled_figures import intervals_of, sampled_figures, sampled_gpu_figures
from wse.studies.estimate.ranges.study import uncertainty_of
from wse.studies.results.operating_points import point_result


def with_pareto(samples: RowSamples) -> RowSamples:
    """Return the samples of rows, with ``pareto`` set for rows that no other row beats in speed and cost."""
    return {
        replace(row, pareto=not any(_surpasses(other_row, row) for other_row in samples)): figures
        for row, figures in samples.items()
    }


def _surpasses(row: PlannedRow, other_row: PlannedRow) -> bool:
    """Return whether ``row`` dominates ``other_row``: better in speed or cost, worse in neither.

    Numbers are rounded to three significant digits first, because tables show no smaller
    differences.
    """
    pairs = (
        (_three_digits(row.tokens_per_s_per_user), _three_digits(other_row.tokens_per_s_per_user)),
        (-_three_digits(row.usd_per_million_tokens), -_three_digits(other_row.usd_per_million_tokens)),
    )
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _three_digits(value: float | None) -> float:
    """Round a number to three significant digits; return 0 if the number is unknown."""
    return float(f"{value or 0.0:.3g}")


def rank(row: PlannedRow, goal: Goal) -> tuple[bool, float]:
    """Return the sort key of a row; the best row has the smallest key.

    Rows that meet the limits come first, sorted by the objective (latency of a request, throughput
    or cost). All other rows follow, sorted by how far they exceed the limits.
    """
    if not row.keeps:
        return True, row.excess
    if goal.objective == LATENCY:
        return False, row.request_s
    if goal.objective == THROUGHPUT:
        return False, -row.tokens_per_s
    return False, million_tokens_usd(row)


def usd_per_hour(row: PlannedRow) -> float:
    """Return the price of a machine per hour; infinity if no price is known."""
    return math.inf if row.usd_per_hour is None else row.usd_per_hour


def compares_hours(goal: Goal) -> bool:
    """Return whether machines are also compared by their price per hour.

    This is the case if a number of users is given and the objective is cost.
    """
    return goal.users is not None and goal.objective == COST


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationPlan:
    """Rows of a ranking for one mapping on a certain number of wafers.

    Attributes:
        samples: The rows, each with its figures (such as speed and cost) for random samples of the
            uncertain constants. For each inter-wafer link, there is a row for the best layout, and
            there may be rows for other numbers of replicas.
        reason: Why the mapping is impossible on these wafers; empty if it is possible.
    """

    samples: RowSamples = field(default_factory=dict)
    reason: str = ""


def plan_combination(request: CompareRequest, combination: Combination, *, max_wafers: int) -> CombinationPlan:
    """Return the ranking's rows for one mapping and wafer count, for each link between wafers.

    If the combination is impossible, the result contains the reason.

    Args:
        request: The comparison.
        combination: Mapping and number of wafers.
        max_wafers: Maximum number of wafers of all replicas together, for rows with more replicas
            than the users need.
    """
    base = replace(request.base, mapping=combination.mapping, wafers=combination.wafers)
    try:
        prepared_estimate = prepare_estimate(base)
        links: Sequence[WaferLink | None] = (None,)
        if request.links_are_given and prepared_estimate.options.wafers > 1:
            links = request.links(prepared_estimate.wafer)
        samples: RowSamples = {}
        for link in links:
            samples |= _planned_wafers(prepared_estimate, link, request.goal, max_wafers)
        return CombinationPlan(samples=samples)
    except (DoesNotFit, BadInput) as error:
        return CombinationPlan(reason=str(error))


def _with_replicas(goal: Goal, chips: int, max_chips: int) -> Iterator[Goal]:
    """Yield a goal and, without latency limits, the same goal for 2, 4, 8 ... replicas.

    Replicas are identical machines that share the users. With latency limits, the fewest replicas
    that meet them are the best choice. Without limits, the fewest are those with room for all
    users, but more replicas may be better than one larger machine.

    Args:
        goal: Users, latency limits and objective.
        chips: Number of wafers or GPUs of one replica.
        max_chips: Maximum number of wafers or GPUs of all replicas.
    """
    yield goal
    if goal.users is None or goal.replicas is not None or goal.limits_s:
        return
    replicas = 2
    while replicas <= min(goal.users, max_chips // chips):
        yield replace(goal, replicas=replicas)
        replicas *= 2


def _planned_wafers(
    prepared_estimate: PreparedEstimate, link: WaferLink | None, goal: Goal, max_wafers: int
) -> RowSamples:
    """Return the ranking's rows for one mapping, wafer count and inter-wafer link.

    Replicas are identical machines that share the users. The rows have different numbers of
    replicas. The first is for the layout that best meets the goal. Others are for given numbers of
    replicas (`_with_replicas`), and, if prices per hour are compared, for that of the compiled
    layouts that needs the fewest replicas.

    Args:
        prepared_estimate: The request.
        link: Requested link between wafers, which is then stated in the row. None for the wafer's
            own link.
        goal: Users, latency limits and objective.
        max_wafers: Maximum number of wafers of all replicas together, for rows with more replicas
            than the users need.

    Returns:
        For each row, its figures for random samples of the uncertain constants.

    Raises:
        DoesNotFit: There is no room for the model, or for the KV cache of a single request.
    """
    linked = with_link(prepared_estimate, link)
    ranking = LayoutRanking(linked, compile_fastest)
    ranking.find_room(goal)
    goals = [*_with_replicas(goal, linked.options.wafers, max_wafers)]
    pairs = [(ranking.layouts_for(replicas_goal)[0], replicas_goal) for replicas_goal in goals]
    if compares_hours(goal) and goal.limits_s and goal.replicas is None:
        pairs.append((ranking.with_fewest_replicas(goal), goal))
    samples: RowSamples = {}
    for layout, replicas_goal in pairs:
        found = ranking.plan(layout, replicas_goal)
        if found is None:
            raise DoesNotFit(no_room(linked.shape))
        if not found.meets and replicas_goal != goal:
            continue  # too few replicas
        row = planned_row(
            layout.deployment,
            found,
            kind=WAFER,
            name=linked.wafer.name,
            software=layout.candidate.program.mapping_name,
            dtype=linked.options.dtype,
            users_per_pass=layout.deployment.slots,
            link=link,
        )
        other_replicas = [other.replicas for other in samples]
        if goal.limits_s and row.replicas >= min(other_replicas, default=math.inf):
            continue  # no lower price per hour
        if row.replicas not in other_replicas:
            uncertainty = uncertainty_of(linked, layout.candidate.program)
            figures = sampled_figures(uncertainty, layout.deployment, row.users, row.replicas)
            samples[_with_samples(row, figures, goal)] = figures
    return samples


def rows_of_gpus(request: CompareRequest) -> tuple[RowSamples, dict[str, AssumptionResult], dict[str, str]]:
    """Return the rows of GPU machines in a ranking, for one prompt length and answer length.

    Returns:
        1. For each row, its figures for random samples of the uncertain constants. There is a row
           for each GPU type and GPU count that can serve a user, and for other numbers of replicas.
        2. The assumed prices and powers of these GPUs.
        3. For all other GPU types and counts, the reason why they cannot serve a user, keyed by
           description.
    """
    possible_gpus, reasons = prepared_gpus(request)
    samples: RowSamples = {}
    economics: dict[str, AssumptionResult] = {}
    max_gpus = max((machine.deployment.chips for machine in possible_gpus), default=0)
    for machine, prepared_estimate in possible_gpus.items():
        deployment = prepared_estimate.deployment
        economics |= assumptions_of(deployment.economics, machine.name)
        for goal in _with_replicas(request.goal, deployment.chips, max_gpus):
            found = plan(deployment, goal)
            assert found is not None  # prepared_gpus returns only GPUs with room for a user
            if not found.meets and goal != request.goal:
                continue  # too few replicas
            row = planned_row(
                deployment, found, kind=GPU, name=machine.name, software=machine.software, dtype=machine.dtype
            )
            figures = sampled_gpu_figures(deployment, row)
            samples[_with_samples(row, figures, goal)] = figures
    return samples, economics, reasons


def _with_samples(row: PlannedRow, figures: Mapping[str, F64], goal: Goal) -> PlannedRow:
    """Return a copy of a row with statistics of random samples of the uncertain constants.

    These are the 90 % intervals of its figures, and the fraction of samples in which it meets the
    latency limits.

    Args:
        row: The row.
        figures: float64 ``[samples]`` for each figure, keyed by field of the row.
        goal: The limits.
    """
    return replace(row, ranges=intervals_of(row, figures), within_limits=share_within_limits(figures, goal))


def planned_row(
    deployment: Deployment,
    found: Plan,
    *,
    kind: Kind,
    name: str,
    software: str,
    dtype: str,
    users_per_pass: int | None = None,
    link: WaferLink | None = None,
) -> PlannedRow:
    """Create the ranking's row for a plan, which states how many replicas serve how many users.

    Args:
        deployment: The model on the wafers or GPUs of one replica.
        found: The plan.
        kind: ``wafer`` or ``gpu``.
        name: Name of the wafer or GPU.
        software: Mapping or serving stack.
        dtype: Element type of the weights.
        users_per_pass: Users whose tokens are decoded in one pass on wafers; None on GPUs.
        link: Requested link between wafers; None for the wafer's own.
    """
    return PlannedRow(
        **vars(point_result(found.point)),
        kind=kind,
        name=name,
        software=software,
        dtype=dtype,
        prompt_len=deployment.shape.prompt_tokens,
        new_tokens=deployment.shape.new_tokens,
        chips=deployment.chips,
        link_bytes_per_s=None if link is None else link.bytes_per_s,
        link_latency_s=None if link is None else link.latency_s,
        users_per_pass=users_per_pass,
        max_users=found.point.replicas * deployment.max_concurrency,
        keeps=found.meets,
        excess=found.excess,
    )
