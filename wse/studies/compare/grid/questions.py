"""Questions about wafers: one or many; pipeline or tensor split; weights in SRAM or streamed.

The answer to a question consists of a comparison of the relevant wafers and mappings, and a verdict
derived from its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from wse.errors import UnknownName
from wse.reports.number_text import plural
from wse.reports.progress import OnProgress
from wse.serving.weight_streaming import StreamingBound
from wse.studies.compare.grid.axes import prepared_on_fewest_wafers, wafer_counts
from wse.studies.compare.grid.rows import with_best
from wse.studies.compare.grid.streaming import BATCHES, StreamedRate, streamed_row, users_with_room, weights_of
from wse.studies.compare.grid.study import compare
from wse.studies.compare.grid.verdict import link_words, place, rate, speed
from wse.studies.compare.request import CompareRequest
from wse.studies.compare.result import CompareResult
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.workers.engine_pool import Pool
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

ONE_OR_MANY, PIPELINE_OR_TENSOR, SRAM_OR_STREAMING = "one-wafer-or-many", "pipeline-or-tensor", "sram-or-streaming"
SPLITS: Final = ("region", "pipeline", "tensor")
RESIDENT: Final = ("region",)


def answer(question: str, request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Answer a question about wafers with a comparison and a verdict.

    Args:
        question: A name from `QUESTIONS`, such as ``one-wafer-or-many``.
        request: The model, and the wafers, mappings and links to compare.
        on_progress: Called with (combinations done, total number of combinations, last
            combination).
        pool: Processes that compute the combinations.

    Raises:
        UnknownName: There is no such question.
        BadInput: The request is invalid, as for `compare`.
        DoesNotFit: No combination is possible.
    """
    if question not in QUESTIONS:
        raise UnknownName("question", question, QUESTIONS, place="--question")
    return replace(QUESTIONS[question](request, on_progress, pool), question=question)


def _one_or_many(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Compare the smallest number of wafers on which the model fits with other wafer counts.

    The other counts come from ``--wafers``. If it is omitted, they are multiples of the smallest
    number. The verdict is derived in the same way as for a comparison without a question.
    """
    first = prepared_on_fewest_wafers(replace(request, wafers=None))
    default_counts = wafer_counts(first.options.wafers, first.spec.layer_count)
    counts = {first.options.wafers, *(request.wafers or default_counts)}
    if len(counts) == 1:
        counts.update(default_counts[:2])
    result = compare(replace(request, wafers=tuple(sorted(counts))), on_progress, pool)
    if len({row.wafers for row in result.possible}) > 1:
        return result
    return replace(result, verdict=(*result.verdict, "There is no other number of wafers to compare with."))


def _pipeline_or_tensor(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Compare a pipeline with a tensor split, for each wafer count above one.

    In the pipeline, consecutive wafers store consecutive layers. In the tensor split, every op runs
    on all wafers.
    """
    result = compare(replace(request, candidates=SPLITS), on_progress, pool)
    groups = [
        group
        for group in _by_machine(result.possible)
        if group[0].wafers > 1 and len({row.mapping for row in group}) > 1
    ]
    if not groups:
        verdict = ["There is no number of wafers above one on which two of the mappings can be compared."]
    else:
        verdict = [
            _rank("One user is fastest", groups, speed),
            _rank("All users get the most tokens", groups, lambda row: row.tokens_per_s or 0.0),
            _crossings([row for group in groups for row in _best_of_mappings(group, speed)]),
        ]
    return replace(result, verdict=tuple(verdict))


def _rank(praise: str, groups: Sequence[Sequence[ComparisonRow]], key: Callable[[ComparisonRow], float]) -> str:
    """Return a sentence that states which mapping is best by some metric, such as speed.

    A machine is a wafer count with an inter-wafer link. If different mappings are best on
    different machines, the sentence names the machines of each. It also states by what factors
    each best mapping beats the other mappings on its machines.

    Args:
        praise: Start of the sentence, such as "One user is fastest".
        groups: Rows of each machine.
        key: Function that returns a row's metric; higher is better.
    """
    parts = []
    groups = [_best_of_mappings(group, key) for group in groups]
    winners = [max(group, key=key) for group in groups]
    for name in dict.fromkeys(row.mapping for row in winners):
        wins = [(row, group) for row, group in zip(winners, groups, strict=True) if row.mapping == name]
        machines_text = "" if len(wins) == len(groups) else f" on {_machines([row for row, _ in wins], groups)}"
        times: dict[str, list[float]] = {}
        for row, group in wins:
            for other_row in group:
                if other_row is not row:
                    times.setdefault(other_row.mapping, []).append(key(row) / key(other_row))
        factors_text = " and ".join(f"{_range(values, '{:.2f}')} times {mapping}" for mapping, values in times.items())
        parts.append(f"{name}{machines_text}, {factors_text}")
    return f"{praise} with {'; with '.join(parts)}."


def _best_of_mappings(rows: Sequence[ComparisonRow], key: Callable[[ComparisonRow], float]) -> list[ComparisonRow]:
    """Return, for each mapping, the row with the highest value of ``key``.

    A mapping can have several rows because layouts are chosen for several objectives.
    """
    names = dict.fromkeys(row.mapping for row in rows)
    return [max((row for row in rows if row.mapping == name), key=key) for name in names]


def _machines(rows: Sequence[ComparisonRow], groups: Sequence[Sequence[ComparisonRow]]) -> str:
    """Return a phrase that lists the machines of some rows, such as "2, 4 wafers".

    A machine is a wafer count with an inter-wafer link. If ``rows`` includes all compared links of
    a wafer count, only the wafer count is stated.

    Args:
        rows: Rows to describe, at most one per machine.
        groups: Rows of each machine in the comparison.
    """
    texts = []
    for wafers in dict.fromkeys(row.wafers for row in rows):
        rows_of_wafers = [row for row in rows if row.wafers == wafers]
        if len(rows_of_wafers) == sum(group[0].wafers == wafers for group in groups):
            texts.append(f"{wafers}")
        else:
            texts.append(f"{wafers} over {' or '.join(link_words(row) for row in rows_of_wafers)}")
    return f"{', '.join(texts)} wafers"


def _crossings(rows: Sequence[ComparisonRow]) -> str:
    """Return a sentence that states how much of a token's time is spent on links between wafers.

    It contains a percentage for each mapping, or a range if rows of a mapping differ.
    """
    percentages: dict[str, list[float]] = {}
    for row in rows:
        percentages.setdefault(row.mapping, []).append(100 * (row.crossing_fraction or 0.0))
    ordered = sorted(percentages, key=lambda name: -max(percentages[name]))
    parts = [f"{_range(percentages[name], '{:.1f}')} % with {name}" for name in ordered]
    return f"Crossings between wafers take {', '.join(parts)} of a token's time."


def _sram_or_streaming(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Compare weights that stay in SRAM with weights that are streamed to the wafers in every pass.

    1. Compile the model with its weights in SRAM for the requested wafer counts. The default is the
       smallest number of wafers on which the model fits.
    2. Compute upper bounds on the speed with streamed weights, for each streaming rate and several
       batch sizes, on one wafer and on the best wafer count from step 1. Also compute the batch
       size at which streaming gives the same total tokens/s as SRAM.
    3. Derive the verdict.
    """
    # 1. Weights in SRAM.
    resident_request = replace(request, mappings=request.mappings or RESIDENT)
    if request.wafers is None:
        prepared_estimate = prepared_on_fewest_wafers(resident_request)
        resident_request = replace(resident_request, wafers=(prepared_estimate.options.wafers,))
    resident_request = replace(resident_request, link_gb_per_s=None, link_latency_us=None, own_link=True)
    result = compare(resident_request, on_progress, pool)
    best_for_all = max(result.possible, key=lambda row: row.tokens_per_s or 0.0)
    best_for_one = max(result.possible, key=speed)
    prepared_estimate = prepare_estimate(
        replace(request.base, mapping="auto", wafers=best_for_all.wafers)  # its layout does not matter here
    )
    options = prepared_estimate.options
    weights = weights_of(prepared_estimate.spec, options.dtype, options.activation_type, options.routing)
    pass_s = (best_for_one.tpot_s or 0.0) * (1 - (best_for_one.crossing_fraction or 0.0))
    tokens_per_s = best_for_all.tokens_per_s or 0.0
    # 2. Streamed weights.
    rows, rates = [], []
    for bytes_per_s in _rates(request, prepared_estimate.wafer.host_bytes_per_s):
        for wafers in dict.fromkeys((1, best_for_all.wafers)):
            streaming = StreamingBound(weights=weights, bytes_per_s=wafers * bytes_per_s, pass_s=pass_s)
            break_even_users = streaming.users_for(tokens_per_s)
            batches = sorted({*BATCHES, *([] if break_even_users is None else [break_even_users])})
            streamed_rows = [streamed_row(prepared_estimate, streaming, wafers, batch) for batch in batches]
            rows += streamed_rows
            rates.append(
                StreamedRate(
                    one_user=streamed_rows[0],
                    break_even_users=break_even_users,
                    break_even_users_per_wafer=streaming.users_for(tokens_per_s * wafers / best_for_all.wafers),
                    users_with_room=users_with_room(prepared_estimate, wafers),
                )
            )
    # 3. Verdict.
    verdict = (_resident_or_streamed(best_for_one, rates), _break_even(best_for_all, rates))
    return replace(result, rows=with_best((*result.rows, *rows)), verdict=verdict)


def _resident_or_streamed(user: ComparisonRow, rates: Sequence[StreamedRate]) -> str:
    """Return a sentence that compares one user's speed with weights in SRAM and streamed weights.

    Args:
        user: Fastest row for a single user, among the rows whose weights stay in SRAM.
        rates: Results with streamed weights, one for each streaming rate.
    """
    streamed = ", ".join(f"{rate(speed(streams.one_user))} {streams}" for streams in rates)
    times = _range([speed(user) / speed(streams.one_user) for streams in rates], "{:,.3g}")
    return (
        f"Weights in SRAM on {place(user)} give one user {rate(speed(user))}, {times} times the speed of weights "
        f"streamed for every pass, at most {streamed}."
    )


def _break_even(best_for_all: ComparisonRow, rates: Sequence[StreamedRate]) -> str:
    """Return a sentence with the batch sizes at which streaming weights is as fast as SRAM.

    The total tokens/s are then equal. If the wafer counts differ, the sentence also states the
    batch size for equal tokens/s per wafer. For comparison, it states how many users' KV caches
    would fill all SRAM.

    Args:
        best_for_all: Row with the highest throughput, among the rows whose weights stay in SRAM.
        rates: Results with streamed weights, one for each streaming rate.
    """
    parts = []
    for streams in rates:
        if streams.break_even_users is None:
            parts.append(f"no batch {streams}")
            continue
        text = f"a batch of {streams.break_even_users:,} {streams}"
        if streams.break_even_users_per_wafer is not None and best_for_all.wafers != streams.one_user.wafers:
            text += f" ({streams.break_even_users_per_wafer:,} for the same tokens/s per wafer)"
        needed_users = (
            streams.break_even_users
            if streams.break_even_users_per_wafer is None
            else streams.break_even_users_per_wafer
        )
        conjunction = "where" if needed_users <= streams.users_with_room else "but"
        parts.append(f"{text}, {conjunction} all SRAM has room for the caches of {streams.users_with_room:,}")
    total = f"{rate(best_for_all.tokens_per_s or 0.0)} for {plural(best_for_all.users or 0, 'user')}"
    return f"SRAM serves {total}; streaming serves the same tokens/s with {'; '.join(parts)}."


def _rates(request: CompareRequest, host_bytes_per_s: float) -> tuple[float, ...]:
    """Return the rates at which weights are streamed to each wafer, in bytes/s.

    The rates come from ``--link-bandwidth``. The default is ``host_bytes_per_s``, the rate at which
    a wafer receives data from its host.
    """
    return (host_bytes_per_s,) if request.link_gb_per_s is None else tuple(rate * 1e9 for rate in request.link_gb_per_s)


def _by_machine(rows: Sequence[ComparisonRow]) -> list[list[ComparisonRow]]:
    """Group rows that have the same number of wafers and the same link between wafers."""
    groups: dict[object, list[ComparisonRow]] = {}
    for row in rows:
        groups.setdefault((row.wafers, row.link), []).append(row)
    return list(groups.values())


def _range(values: Sequence[float], form: str) -> str:
    """Format the range of some numbers, such as "1.2 to 1.9".

    Only one number is shown if minimum and maximum are equal after rounding.

    Args:
        values: The numbers.
        form: Format of a number, such as ``{:.2f}``.
    """
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


QUESTIONS: Final[dict[str, Callable[[CompareRequest, OnProgress, Pool], CompareResult]]] = {
    ONE_OR_MANY: _one_or_many,
    PIPELINE_OR_TENSOR: _pipeline_or_tensor,
    SRAM_OR_STREAMING: _sram_or_streaming,
}
