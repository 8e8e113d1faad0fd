"""``wse compare --ttft 200ms --tpot 2ms --top 5``: rows of comparisons that keep targets, for some lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wse.comparison.compare.grid import compare
from wse.comparison.compare.ranking.result import RankedRow, RankingResult, row_text
from wse.comparison.compare.result import CompareResult
from wse.errors import DoesNotFit
from wse.report.comparison_row import ComparisonRow
from wse.report.progress import OnProgress, ignore
from wse.report.terminal import plural, seconds
from wse.request.compare_request import CompareRequest
from wse.request.engine_option import THIS_MACHINE, EngineChoice
from wse.request.targets import NO_TARGETS, Targets, read_lengths

ROUNDING: Final = 1e-9
"""The share by which a rate that is just enough may seem to be less."""


def rank(
    request: CompareRequest,
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> RankingResult:
    """Compare a model for each of the lengths, and rank the rows of all.

    With targets the cheapest that keep them come first, then the others by how far they are off; without, the fastest
    for one user. Users are as many as have room, and no more than leave each within the time of a token.

    Raises:
        As `wse.comparison.compare.grid.compare` does.
    """
    targets = request.targets
    lengths: Sequence[tuple[int | None, int | None]] = [(request.base.prompt_len, request.base.new_tokens)]
    if targets.lengths is not None:
        lengths = [read_lengths(text) for text in targets.lengths]
    alone = replace(request, own_link=True, targets=NO_TARGETS)
    results: list[CompareResult] = []
    refusals: list[DoesNotFit] = []
    for at, (prompt_len, new_tokens) in enumerate(lengths):
        base = replace(request.base, prompt_len=prompt_len, new_tokens=new_tokens)

        def shown(done: int, total: int, name: str, at: int = at) -> None:
            on_progress(at * total + done, len(lengths) * total, name)

        try:
            results.append(compare(replace(alone, base=base), shown, jobs=jobs, engine=engine))
        except DoesNotFit as refusal:
            refusals.append(refusal)
    if not results:
        raise refusals[0]
    rows = [row for result in results for row in _ranked(result, targets)]
    kept = [row for row in rows if row.keeps]
    chosen = sorted((row for row in rows if row.pareto or not targets.pareto), key=lambda row: _rank(row, targets))
    return RankingResult(
        inputs={k: v for k, v in results[0].inputs.items() if k not in ("prompt_len", "new_tokens", "context")}
        | {"lengths": [f"{r.inputs['prompt_len']}/{r.inputs['new_tokens']}" for r in results]},
        targets=targets.times(),
        tried=len(rows),
        keeping=len(kept),
        rows=tuple(chosen[: targets.top]),
        verdict=(*_verdict(rows, targets), *map(str, refusals)),
    )


def _ranked(result: CompareResult, targets: Targets) -> list[RankedRow]:
    """The rows of a comparison that can be, with the users that its targets leave."""
    rows = [_row(row, result, targets) for row in result.possible]
    return [replace(row, pareto=not any(_surpasses(other, row) for other in rows)) for row in rows]


def _row(row: ComparisonRow, result: CompareResult, targets: Targets) -> RankedRow:
    per_user, of_all = row.tokens_per_s_per_user or 0.0, row.tokens_per_s or 0.0
    tpot, ttft, batch = row.tpot_s or math.inf, row.ttft_s or 0.0, int(result.inputs["batch"])
    # streams share the slowest server: beyond what keeps it busy, more users divide the same tokens among them
    within = of_all * targets.tpot * (1 + ROUNDING) if targets.tpot is not None else math.inf
    users = max(batch, int(min(float(row.users or batch), within)) // batch * batch)
    tokens = min(of_all, users * per_user)
    return RankedRow(
        prompt_len=int(result.inputs["prompt_len"]),
        new_tokens=int(result.inputs["new_tokens"]),
        mapping=row.mapping,
        chosen=row.chosen,
        wafers=row.wafers,
        link_bytes_per_s=row.link_bytes_per_s,
        link_latency_s=row.link_latency_s,
        keeps=(targets.tpot is None or tpot <= targets.tpot) and (targets.ttft is None or ttft <= targets.ttft),
        tokens_per_s_per_user=per_user,
        tpot_s=tpot,
        ttft_s=ttft,
        users=users,
        tokens_per_s=tokens,
        tokens_per_s_per_wafer=tokens / row.wafers,
        usd_per_million_tokens=(row.usd_per_million_tokens or 0.0) * of_all / tokens,
        pareto=False,
    )


def _surpasses(one: RankedRow, other: RankedRow) -> bool:
    """Whether a row is better for a user or for a wafer, and in neither worse."""
    pairs = (
        (one.tokens_per_s_per_user, other.tokens_per_s_per_user),
        (one.tokens_per_s_per_wafer, other.tokens_per_s_per_wafer),
    )
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _rank(row: RankedRow, targets: Targets) -> tuple[bool, float]:
    if not targets.times():
        return False, -row.tokens_per_s_per_user
    return not row.keeps, row.usd_per_million_tokens if row.keeps else _excess(row, targets)


def _excess(row: RankedRow, targets: Targets) -> float:
    """By how much a row misses its targets, as the largest ratio of a time to its target."""
    times = {"ttft_s": row.ttft_s, "tpot_s": row.tpot_s}
    return max(times[name] / target for name, target in targets.times().items())


def _verdict(rows: Sequence[RankedRow], targets: Targets) -> list[str]:
    """A sentence for all lengths, and one for each."""
    asked = " and ".join(f"{name[:4].upper()} {seconds(value)}" for name, value in targets.times().items())
    sentences = []
    for lengths in dict.fromkeys((row.prompt_len, row.new_tokens) for row in rows):
        of_lengths = sorted(
            (r for r in rows if (r.prompt_len, r.new_tokens) == lengths), key=lambda r: _rank(r, targets)
        )
        first, kept = of_lengths[0], sum(row.keeps for row in of_lengths)
        where = f"{lengths[0]:,} + {lengths[1]:,} tokens"
        if not targets.times():
            sentences.append(
                f"{where}: the fastest for one user of {plural(len(of_lengths), 'row')}: {row_text(first)}."
            )
        elif kept:
            verb = "keeps" if kept == 1 else "keep"
            sentences.append(
                f"{where}: {kept} of {plural(len(of_lengths), 'row')} {verb} {asked}; the cheapest: {row_text(first)}."
            )
        else:
            sentences.append(
                f"{where}: none of {plural(len(of_lengths), 'row')} keeps {asked}; the nearest: {row_text(first)}."
            )
    return sentences
