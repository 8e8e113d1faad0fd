"""The study of ``wse compare MODEL --users 100 --tpot 20ms``: machines within limits, ranked.

On wafers, the layouts that the search finds compete, including layouts with passes for several
users, for each number of wafers and each requested link. If users are given and cost decides, the
layout that needs the fewest replicas has a row of its own, because its price per hour is the
lowest. On GPUs, each number competes that has
room for the model and the KV cache of one user. Each machine has as many replicas as the users
need, and is judged by the operating point of all replicas together. Machines that meet the limits
come first, ordered by the objective. The others are ordered by how far they exceed the limits.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wse.errors import BadInput, DoesNotFit
from wse.reports.progress import OnProgress, ignore
from wse.serving.goal import COST, LATENCY, THROUGHPUT, Goal
from wse.serving.operating_point import Deployment, RequestShape
from wse.serving.plan import Plan, plan
from wse.serving.prices import prices_without_gpus
from wse.studies.compare.checks import check
from wse.studies.compare.grid.combination import Combination, with_link
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.grid.study import all_outputs, combinations_of, compared_counts, fewest_wafers
from wse.studies.compare.machine import GPU, WAFER, Kind, gpu_machine, no_room, prepared_gpus
from wse.studies.compare.plan.result import PlannedRow, PlanResult
from wse.studies.compare.plan.verdict import plan_verdict
from wse.studies.compare.request import CompareRequest, WaferLink
from wse.studies.compare.result import AssumptionResult
from wse.studies.compare.targets import read_lengths
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.ranked_layouts import LayoutRanking
from wse.studies.estimate.layouts.searches import searches_for
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.options.option import replace_options
from wse.studies.workers.engine_pool import Pool, engine_pool

GAP_PARTS: Final = 8
"""Largest gap between tried numbers of wafers around the best one, as a divisor of the best number.

More numbers around the best one are tried until the gaps to its neighbours are at most 1/8 of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationPlan:
    """The rows of one mapping on one number of wafers.

    Attributes:
        rows: For each link between wafers, the best layout, and the one with the lowest price per
            hour if this is another one.
        reason: Why the mapping is impossible on these wafers; empty if it is possible.
        bug: Traceback if the combination ended in a bug in wse; empty otherwise.
    """

    rows: tuple[PlannedRow, ...] = ()
    reason: str = ""
    bug: str = ""


def plan_machines(
    request: CompareRequest,
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> PlanResult:
    """Rank machines by an objective, such as the cost of a token, within latency limits.

    1. For each pair of prompt length and number of new tokens, determine how many users each
       machine serves, and with how many replicas.
    2. Rank all machines, and select those to show.

    Args:
        request: Users, limits and machines. Wafers are connected by their own link unless other
            links are requested.
        on_progress: Called with (number of combinations done, their number, the last combination).
        jobs: Number of processes; None uses all cores.
        engine: Engine that runs the processes.

    Raises:
        BadInput: A name or file in the request cannot be used, or options contradict each other.
        DoesNotFit: No machine has room for the model and the cache of one user.
        WseBug: A combination ended in a bug in wse.
    """
    check(request)
    targets = request.targets
    lengths: Sequence[tuple[int | None, int | None]] = [
        (request.base.workload.prompt_len, request.base.workload.new_tokens)
    ]
    if targets.lengths is not None:
        lengths = [read_lengths(text) for text in targets.lengths]
    rows: list[PlannedRow] = []
    tried_lengths: list[tuple[int, int]] = []
    tried_wafers: set[int] = set()
    reasons_by_machine: dict[str, str] = {}
    economics: dict[str, AssumptionResult] = {}
    # 1. Rows for each pair of lengths.
    with engine_pool(engine, jobs) as pool:
        for position, (prompt_len, new_tokens) in enumerate(lengths):
            base = replace_options(request.base, prompt_len=prompt_len, new_tokens=new_tokens)
            request_of_lengths = replace(request, base=base)

            def report_progress(done: int, total: int, name: str, position: int = position) -> None:
                """Report progress over all lengths."""
                on_progress(position * total + done, len(lengths) * total, name)

            first, wafer_rows, wafer_reasons, wafers = _wafer_rows(request_of_lengths, report_progress, pool)
            tried_wafers |= wafers
            gpu_rows, prices, gpu_reasons = _gpu_rows(request_of_lengths)
            rows += with_pareto([*wafer_rows, *gpu_rows])
            economics |= assumptions_of(first.economics) | prices
            tried_lengths.append((first.prompt_len, first.new_tokens))
            prefix = f"{first.prompt_len}/{first.new_tokens}: " if len(lengths) > 1 else ""
            reasons_by_machine |= {prefix + name: reason for name, reason in (wafer_reasons | gpu_reasons).items()}
    if not rows:
        name, reason = next(iter(reasons_by_machine.items()))
        message = f"{name}: {reason}"
        raise DoesNotFit(message)
    # 2. Ranking.
    rows.sort(key=lambda row: _rank(row, request.goal))
    shown_rows = [row for row in rows if row.pareto or not targets.pareto]
    return PlanResult(
        inputs=_inputs(request, tried_lengths, sorted(tried_wafers)),
        targets=targets.times(),
        users=request.base.serving.users,
        economics=economics,
        tried=len(rows),
        keeping=sum(row.keeps for row in rows),
        rows=tuple(shown_rows[: targets.top]),
        impossible=reasons_by_machine or None,
        verdict=plan_verdict(rows, request.goal, tried_lengths),
    )


def _wafer_rows(
    request: CompareRequest, on_progress: OnProgress, pool: Pool
) -> tuple[PreparedEstimate, list[PlannedRow], dict[str, str], set[int]]:
    """Return the rows of wafers for one prompt length and one number of new tokens.

    Without ``--wafers``, multiples of the smallest number of wafers are tried first. The search
    then tries numbers halfway between the best number and its neighbours, until the neighbours are
    close to the best number (`counts_near`). If users are given and cost decides, the same is done
    around the number with the lowest price per hour.

    Returns:
        1. The request prepared for the smallest number of wafers.
        2. The rows.
        3. The reasons for impossible combinations of mapping, objective and number of wafers,
           keyed by the description of the combination.
        4. The numbers of wafers that were tried.
    """
    price = prices_without_gpus(request.base.costs.price, request.gpu or ())
    priced_request = replace(request, base=replace_options(request.base, price=price))
    on_progress(0, 1, str(request.base.model))
    _, first = fewest_wafers(priced_request)
    outputs: dict[Combination, CombinationPlan] = {}
    tried_counts: set[int] = set()
    counts: Sequence[int] = compared_counts(priced_request, first)
    while counts:
        done_before = len(outputs)

        def report_progress(done: int, total: int, name: str, done_before: int = done_before) -> None:
            """Report progress. Combinations of earlier iterations of the search are included."""
            on_progress(done_before + done, done_before + total, name)

        outputs |= all_outputs(
            priced_request, combinations_of(priced_request, first, counts), plan_combination, report_progress, pool
        )
        # Several mappings may find the same layout.
        rows = list(dict.fromkeys(row for output in outputs.values() for row in output.rows))
        tried_counts = {combination.wafers for combination in outputs}
        counts = () if request.wafers is not None else _next_counts(rows, request.goal, tried_counts)
    reasons = {str(name): output.reason for name, output in outputs.items() if output.reason}
    return first, rows, reasons, tried_counts


def _next_counts(rows: Sequence[PlannedRow], goal: Goal, tried_counts: Collection[int]) -> list[int]:
    """Return the numbers of wafers to try next, around the best row and the cheapest one per hour.

    Args:
        rows: Rows of all numbers of wafers that were tried.
        goal: Users, limits and objective.
        tried_counts: All numbers of wafers that were tried.
    """
    best_counts = {min(rows, key=lambda row: _rank(row, goal)).chips} if rows else set()
    kept_rows = [row for row in rows if row.keeps]
    if kept_rows and _compares_hours(goal):
        best_counts.add(min(kept_rows, key=lambda row: (row.usd_per_hour or 0.0, row.chips)).chips)
    return sorted({count for best in best_counts for count in counts_near(best, tried_counts)})


def _compares_hours(goal: Goal) -> bool:
    """Return whether machines for a given number of users are also compared by price per hour."""
    return goal.users is not None and goal.objective == COST


def counts_near(best: int, tried_counts: Collection[int]) -> list[int]:
    """Return the numbers of wafers to try next: halfway between the best and its tried neighbours.

    There is no number to try on a side where the neighbour differs from the best number by at most
    1, or by at most an eighth of the best number.

    Args:
        best: The best number of wafers so far.
        tried_counts: All numbers of wafers that were tried.
    """
    lower = max((count for count in tried_counts if count < best), default=best)
    higher = min((count for count in tried_counts if count > best), default=best)
    neighbours = (lower, higher)
    return [(best + count) // 2 for count in neighbours if abs(best - count) > max(1, best // GAP_PARTS)]


def plan_combination(request: CompareRequest, combination: Combination) -> CombinationPlan:
    """Return the rows of a mapping on a number of wafers, for each link between wafers.

    The function runs in worker processes, so errors are not raised: the result contains the reason
    or, for a bug in wse, the traceback.
    """
    base = replace(request.base, mapping=combination.mapping, wafers=combination.wafers)
    try:
        prepared_estimate = prepare_estimate(base)
        links: Sequence[WaferLink | None] = (None,)
        if request.links_are_given and prepared_estimate.options.wafers > 1:
            links = request.links(prepared_estimate.wafer)
        rows = [row for link in links for row in _planned_wafers(prepared_estimate, link, request.goal)]
        return CombinationPlan(rows=tuple(rows))
    except (DoesNotFit, BadInput) as error:
        return CombinationPlan(reason=str(error))
    except Exception:
        return CombinationPlan(bug=traceback.format_exc())


def _planned_wafers(prepared_estimate: PreparedEstimate, link: WaferLink | None, goal: Goal) -> list[PlannedRow]:
    """Return the row of the layout on wafers that best meets a goal, and of the cheapest per hour.

    The second row is left out if both are the same layout, or if prices per hour are not compared.

    Args:
        prepared_estimate: The request.
        link: Requested link between wafers, which is then stated in the row. None for the wafer's
            own link.
        goal: Users, latency limits and objective.

    Raises:
        DoesNotFit: There is no room for the model, or for the KV cache of a single request.
    """
    linked = with_link(prepared_estimate, link)
    ranking = LayoutRanking(linked, searches_for(linked, compile_fastest, goal))
    best_layouts = [ranking.layouts_for(goal)[0]]
    if _compares_hours(goal):  # for latency, the fewest replicas come first
        best_layouts.append(ranking.layouts_for(replace(goal, objective=LATENCY))[0])
    rows: list[PlannedRow] = []
    for layout in dict.fromkeys(best_layouts):
        found = plan(layout.deployment, goal)
        if found is None:
            raise DoesNotFit(no_room(RequestShape(prompt_tokens=linked.prompt_len, new_tokens=linked.new_tokens)))
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
        if not rows or row.replicas < rows[0].replicas:
            rows.append(row)
    return rows


def _gpu_rows(request: CompareRequest) -> tuple[list[PlannedRow], dict[str, AssumptionResult], dict[str, str]]:
    """Return the rows of GPUs for one prompt length and one number of new tokens.

    Returns:
        1. A row for each type and number of GPUs that can serve a user.
        2. The assumed prices and powers of these GPUs.
        3. The reasons for GPUs that cannot, keyed by their description.
    """
    possible_gpus, reasons = prepared_gpus(request)
    rows: list[PlannedRow] = []
    economics: dict[str, AssumptionResult] = {}
    for machine in map(gpu_machine, possible_gpus):
        economics |= assumptions_of(machine.deployment.economics, machine.name)
        found = plan(machine.deployment, request.goal)
        assert found is not None  # prepared_gpus returns only GPUs with room for a user
        row = planned_row(
            machine.deployment, found, kind=GPU, name=machine.name, software=machine.software, dtype=machine.dtype
        )
        rows.append(row)
    return rows, economics, reasons


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
    """Return the row of a plan, which says how many replicas of a deployment serve how many users.

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
    point = found.point
    cost, energy = point.usd_per_million_tokens, point.joules_per_token
    return PlannedRow(
        kind=kind,
        name=name,
        software=software,
        dtype=dtype,
        prompt_len=deployment.shape.prompt_tokens,
        new_tokens=deployment.shape.new_tokens,
        chips=deployment.chips,
        link_bytes_per_s=None if link is None else link.bytes_per_s,
        link_latency_s=None if link is None else link.latency_s,
        replicas=point.replicas,
        users=point.concurrency,
        users_per_pass=users_per_pass,
        max_users=point.replicas * deployment.max_concurrency,
        keeps=found.meets,
        excess=found.excess,
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        tokens_per_s_per_user=point.tokens_per_s_per_user,
        tokens_per_s=point.tokens_per_s,
        usd_per_million_tokens=None if cost is None else cost.value,
        usd_per_million_tokens_low=None if cost is None else cost.low,
        usd_per_million_tokens_high=None if cost is None else cost.high,
        usd_per_hour=point.usd_per_hour,
        joules_per_token=None if energy is None else energy.value,
        pareto=False,
    )


def with_pareto(rows: Sequence[PlannedRow]) -> list[PlannedRow]:
    """Return the rows, with ``pareto`` set for those on the Pareto frontier of speed and cost."""
    return [replace(row, pareto=not any(_surpasses(other_row, row) for other_row in rows)) for row in rows]


def _surpasses(row: PlannedRow, other_row: PlannedRow) -> bool:
    """Return whether a row dominates another: better in speed or cost, and worse in neither."""
    pairs = (
        (row.tokens_per_s_per_user or 0.0, other_row.tokens_per_s_per_user or 0.0),
        (-(row.usd_per_million_tokens or 0.0), -(other_row.usd_per_million_tokens or 0.0)),
    )
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _rank(row: PlannedRow, goal: Goal) -> tuple[bool, float]:
    """Return the sort key of a row; the best row has the smallest key.

    Rows that meet the limits come first, sorted by the objective (latency of a request, throughput
    or cost). All other rows follow, sorted by how far they exceed the limits.
    """
    if not row.keeps:
        return True, row.excess
    if goal.objective == LATENCY:
        return False, row.ttft_s + (row.new_tokens - 1) * (row.tpot_s or 0.0)
    if goal.objective == THROUGHPUT:
        return False, -row.tokens_per_s
    return False, row.usd_per_million_tokens or 0.0


def _inputs(request: CompareRequest, lengths: Sequence[tuple[int, int]], wafers: Sequence[int]) -> dict[str, object]:
    """Return the options of a ranking that have a value, keyed by the option's name.

    Args:
        request: The request.
        lengths: Pairs of prompt tokens and new tokens that were compared.
        wafers: Numbers of wafers that were tried.
    """
    base = request.base
    values = {
        "model": str(base.model),
        "wafer": str(base.machine.wafer),
        "mesh": base.machine.mesh,
        "wafers": wafers,
        "users": base.serving.users,
        "replicas": request.replicas,
        "objective": request.goal.objective,
        "link_bandwidth": request.link_gb_per_s,
        "link_latency": request.link_latency_us,
        "gpu": [str(gpu) for gpu in request.gpu or ()] or None,
        "lengths": [f"{prompt_len}/{new_tokens}" for prompt_len, new_tokens in lengths],
    }
    return {name: value for name, value in values.items() if value is not None}
