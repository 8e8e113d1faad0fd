"""The study of ``wse compare MODEL --users 100 --tpot 20ms``: machines within limits, ranked.

On wafers, the search compares layouts for each number of wafers and each requested link, including
layouts with passes for several users. If users are given and cost decides, the layout that needs
the fewest replicas has a row of its own, because its price per hour is the lowest. On GPUs, every
number of GPUs is compared that can hold the model and the KV cache of one user. Each machine has as
many replicas as the users need, and is ranked by the operating point of all replicas together.
Without latency limits, 2, 4, 8 ... replicas of each machine are also compared with the larger ones.
Machines that meet the limits come first, ordered by the objective. All other machines are ordered
by how far they exceed the limits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from wse.program.routing import EVEN
from wse.reports.progress import OnProgress
from wse.reports.terminal import printable
from wse.serving.goal import COST, Goal
from wse.serving.prices import prices_without_gpus
from wse.studies.compare.grid.axes import (
    combinations_of,
    compared_counts,
    mapping_counts,
    prepared_on_fewest_wafers,
)
from wse.studies.compare.grid.combination import Combination
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.grid.study import all_outputs
from wse.studies.compare.machine import does_not_fit
from wse.studies.compare.plan.certainty import cheaper_kinds
from wse.studies.compare.plan.result import PlannedRow, PlanResult, RowSamples
from wse.studies.compare.plan.rows import (
    CombinationPlan,
    compares_hours,
    plan_combination,
    rank,
    rows_of_gpus,
    usd_per_hour,
    with_pareto,
)
from wse.studies.compare.plan.verdict import plan_verdict
from wse.studies.compare.published import published_of_rows
from wse.studies.compare.request import CompareRequest, WaferLink
from wse.studies.compare.result import AssumptionResult
from wse.studies.compare.targets import read_lengths
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options
from wse.studies.options.settings import replaced_numbers, with_settings
from wse.studies.workers.engine_pool import Pool

GAP_PARTS: Final = 8
"""Largest gap between tried numbers of wafers around the best one, as a divisor of the best number.

More numbers around the best one are tried until the gaps to its neighbours are at most 1/8 of it.
"""


def plan_machines(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> PlanResult:
    """Rank machines by an objective, such as the cost of a token, within latency limits.

    1. For each pair of prompt length and number of new tokens, determine how many users each
       machine serves, and with how many replicas (identical machines that share the users).
    2. Rank all machines, and select those to show.

    Args:
        request: Users, limits and machines. Wafers are connected by their own link unless other
            links are requested.
        on_progress: Called with (combinations done, total number, last combination).
        pool: Processes that compile the combinations of wafers.

    Raises:
        BadInput: A name or file in the request cannot be used, or options contradict each other.
        DoesNotFit: No machine has room for the model and the cache of one user.
        WseBug: A combination ended in a bug in wse.
    """
    targets = request.targets
    lengths = _lengths(request)
    samples: RowSamples = {}
    tried_lengths: list[tuple[int, int]] = []
    tried_wafers: set[int] = set()
    reasons_by_machine: dict[str, str] = {}
    economics: dict[str, AssumptionResult] = {}
    notes: list[str | None] = []
    # 1. Rows for each pair of lengths.
    for position, (prompt_len, new_tokens) in enumerate(lengths):
        base = replace_options(request.base, prompt_len=prompt_len, new_tokens=new_tokens)
        request_of_lengths = replace(request, base=base)
        report_progress = partial(_report_progress, on_progress, position, len(lengths))
        # GPUs first: they take little time, and their options may be wrong.
        gpu_samples, prices, gpu_reasons = rows_of_gpus(request_of_lengths)
        first, wafer_samples, wafer_reasons, wafers = _wafer_rows(request_of_lengths, report_progress, pool)
        tried_wafers |= wafers
        samples |= with_pareto(wafer_samples | gpu_samples)
        economics |= assumptions_of(first.economics) | prices
        tried_lengths.append((first.prompt_len, first.new_tokens))
        prefix = f"{first.prompt_len}/{first.new_tokens}: " if len(lengths) > 1 else ""
        notes.append(first.note)
        reasons_by_machine |= {prefix + name: reason for name, reason in (wafer_reasons | gpu_reasons).items()}
    if not samples:
        raise does_not_fit(reasons_by_machine)
    # 2. Ranking.
    rows = sorted(samples, key=lambda row: rank(row, request.goal))
    cheaper = cheaper_kinds(rows, samples, tried_lengths) if request.goal.objective == COST else ()
    shown_rows = [row for row in rows if row.pareto or not targets.pareto][: targets.top]
    return PlanResult(
        inputs=_inputs(request, tried_lengths, sorted(tried_wafers)),
        targets=request.goal.limits_s,
        users=request.base.serving.users,
        think_s=request.base.think_s or None,
        economics=economics,
        tried=len(rows),
        keeping=sum(row.keeps for row in rows),
        rows=tuple(shown_rows),
        published=published_of_rows(first.spec, rows_of_one_user(shown_rows, request.links(first.wafer)[0])),
        impossible=reasons_by_machine or None,
        cheaper=cheaper or None,
        verdict=(
            *plan_verdict(rows, request.goal, tried_lengths, cheaper),
            *(f"Note: {printable(note)}." for note in dict.fromkeys(filter(None, notes))),
        ),
    )


def _lengths(request: CompareRequest) -> Sequence[tuple[int | None, int | None]]:
    """Return the requested pairs of prompt length and number of new tokens.

    A length that is not requested is None; it then gets a default later.

    Raises:
        BadInput: The shared tokens (``--prefix-tokens``) are not fewer than those of each prompt.
    """
    if request.targets.lengths is not None:
        pairs = [read_lengths(text) for text in request.targets.lengths]
        for prompt_len, _ in pairs:
            request.base.workload.shared_tokens(prompt_len)
        return pairs
    return [(request.base.workload.prompt_len, request.base.workload.new_tokens)]


def _report_progress(on_progress: OnProgress, position: int, pairs: int, done: int, total: int, name: str) -> None:
    """Report the progress of a ranking that processes several pairs of request lengths in order.

    Args:
        on_progress: Function that is called with the progress over all pairs.
        position: Index of the pair that is being processed.
        pairs: Number of pairs.
        done: Number of finished combinations of this pair.
        total: Number of combinations of this pair.
        name: Name of the last combination.
    """
    on_progress(position * total + done, pairs * total, name)


def _wafer_rows(
    request: CompareRequest, on_progress: OnProgress, pool: Pool
) -> tuple[PreparedEstimate, RowSamples, dict[str, str], set[int]]:
    """Return the rows of wafer machines in a ranking, for one prompt length and answer length.

    Without ``--wafers``, the search starts with 1 and 2 times the smallest number of wafers, and with
    the numbers for which requested mapping files were written. It then tries larger multiples, while
    the largest number that was tried is the best one or no row meets the limits, and numbers halfway
    between the best number and its neighbours (`next_counts`). With ``--pareto``, all multiples are
    tried.

    Returns:
        1. The request prepared for the smallest number of wafers.
        2. For each row, its figures for random samples of the uncertain constants.
        3. The reasons for impossible combinations of mapping, objective and number of wafers,
           keyed by the description of the combination.
        4. The numbers of wafers that were tried.
    """
    price = prices_without_gpus(request.base.costs.price, request.gpu or ())
    priced_request = replace(request, base=replace_options(request.base, price=price))
    on_progress(0, 1, str(request.base.model))
    first = prepared_on_fewest_wafers(priced_request)
    outputs: dict[Combination, CombinationPlan] = {}
    tried_counts: set[int] = set()
    multiples = compared_counts(priced_request, first)
    work = partial(plan_combination, max_wafers=max(multiples))
    counts: Sequence[int] = multiples
    if request.wafers is None and not request.targets.pareto:
        first_counts = {*multiples[:2]} | mapping_counts(request)
        counts = [count for count in multiples if count in first_counts]
    while counts:
        done_before = len(outputs)

        def report_progress(done: int, total: int, name: str, done_before: int = done_before) -> None:
            """Report progress, including the combinations of earlier iterations of the search.

            Args:
                done: Number of finished combinations in this iteration.
                total: Number of combinations in this iteration.
                name: Name of the last combination.
                done_before: Number of combinations in earlier iterations.
            """
            on_progress(done_before + done, done_before + total, name)

        outputs |= all_outputs(
            priced_request, combinations_of(priced_request, first, counts), work, report_progress, pool
        )
        # Several mappings may find the same layout.
        samples = {row: figures for output in outputs.values() for row, figures in output.samples.items()}
        tried_counts |= {*counts}
        counts = () if request.wafers is not None else next_counts([*samples], request.goal, tried_counts, multiples)
    reasons = {str(name): output.reason for name, output in outputs.items() if output.reason}
    return first, samples, reasons, tried_counts


def next_counts(
    rows: Sequence[PlannedRow], goal: Goal, tried_counts: Collection[int], multiples: Sequence[int]
) -> list[int]:
    """Return the numbers of wafers that the search for the best machine tries next.

    - Numbers close to the number of wafers of the best row (`counts_near`).
    - If a number of users is given and the objective is cost: numbers close to that of the row with
      the lowest price per hour. If this row is a single machine, only smaller numbers are tried,
      because a larger machine has a higher price. If it has several replicas, all their wafers
      together are also tried as a single machine, unless their number exceeds the largest multiple.
    - The next larger multiple, if the best row or several replicas with the lowest price per hour
      have the largest number that was tried, or if no row meets the limits.

    The result is empty when the search is finished.

    Args:
        rows: Rows of all numbers of wafers that were tried.
        goal: Users, limits and objective.
        tried_counts: All numbers of wafers that were tried.
        multiples: Multiples of the smallest number of wafers, in ascending order.
    """
    best_counts = {min(rows, key=lambda row: rank(row, goal)).chips} if rows else set()
    extra_counts = set[int]()
    kept_rows = [row for row in rows if row.keeps]
    if kept_rows and compares_hours(goal):
        cheapest = min(kept_rows, key=lambda row: (usd_per_hour(row), row.chips))
        wafers = cheapest.replicas * cheapest.chips
        if cheapest.replicas == 1:
            extra_counts.update(count for count in counts_near(cheapest.chips, tried_counts) if count < cheapest.chips)
        else:
            best_counts.add(cheapest.chips)
            extra_counts.update({wafers} if wafers <= multiples[-1] else ())
    if not kept_rows or max(tried_counts) in best_counts:
        extra_counts.update([count for count in multiples if count > max(tried_counts)][:1])
    counts_between = {count for best in best_counts for count in counts_near(best, tried_counts)}
    return sorted((counts_between | extra_counts) - {*tried_counts})


def counts_near(best: int, tried_counts: Collection[int]) -> list[int]:
    """Return the numbers of wafers to try next: halfway between the best and its tried neighbours.

    There are at most two. No number is tried between the best number and a neighbour if they differ
    by at most 1, or by at most an eighth of the best number.

    Args:
        best: The best number of wafers so far.
        tried_counts: All numbers of wafers that were tried.
    """
    lower = max((count for count in tried_counts if count < best), default=best)
    higher = min((count for count in tried_counts if count > best), default=best)
    neighbours = (lower, higher)
    return [(best + count) // 2 for count in neighbours if abs(best - count) > max(1, best // GAP_PARTS)]


def rows_of_one_user(rows: Sequence[PlannedRow], link: WaferLink) -> list[PlannedRow]:
    """Return the rows that can be compared with published speeds of one user.

    They have one user per replica, who does not pause, the lengths of the first row, and the given
    link between wafers if several links are compared.
    """
    lengths = rows[0].prompt_len, rows[0].new_tokens
    return [
        row
        for row in rows
        if row.users == row.replicas
        and row.in_flight is None
        and (row.prompt_len, row.new_tokens) == lengths
        and (row.link_bytes_per_s, row.link_latency_s) in ((None, None), (link.bytes_per_s, link.latency_s))
    ]


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
        "prefix_tokens": base.workload.prefix_tokens or None,
        "think_time": base.think_s or None,
        "replicas": request.replicas,
        "routing": None if base.serving.routing == EVEN.name else base.serving.routing,
        "objective": request.goal.objective,
        "link_bandwidth": request.link_gb_per_s and [*request.link_gb_per_s],
        "link_latency": request.link_latency_us and [*request.link_latency_us],
        "gpu": [str(gpu) for gpu in request.gpu or ()] or None,
        "lengths": [f"{prompt_len}/{new_tokens}" for prompt_len, new_tokens in lengths],
        **replaced_numbers(with_settings(base)),
    }
    return {name: value for name, value in values.items() if value is not None}
