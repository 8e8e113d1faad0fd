"""Requests that arrive over time at a placement: what ``wse serve-sim`` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from wse.studies.options.option import make_request, replace_options
from wse.studies.scenario.drafting import acceptance_text
from wse.studies.scenario.form import ArrivalsForm, DraftForm
from wse.studies.scenario.placement import Placement, with_draft
from wse.studies.scenario.result import ArrivedResult
from wse.studies.serve.options import CONTINUOUS
from wse.studies.serve.request import ServeRequest
from wse.studies.serve.result import ServeResult
from wse.studies.serve.study import serve

REQUESTS: Final = 2_000
"""Requests where a scenario does not say how many come."""


def arrived_at(placement: Placement, tiers: Sequence[tuple[DraftForm, int]]) -> tuple[ArrivedResult, ...]:
    """The requests of a scenario, served with the drafts and users of an ordinary and a fast tier, or of one alone.

    Raises:
        BadInput and its kinds: as of ``wse serve-sim``.
        DoesNotFit: a request does not fit.
    """
    arrivals = placement.form.arrivals
    assert arrivals is not None  # whoever calls this has looked
    names = ("ordinary", "fast") if len(tiers) > 1 else (None,)
    return tuple(
        _arrived(serve(_request(placement, draft, arrivals, users)).result, name, users)
        for name, (draft, users) in zip(names, tiers, strict=True)
    )


def _request(placement: Placement, draft: DraftForm, arrivals: ArrivalsForm, most_users: int) -> ServeRequest:
    batch = placement.form.batch
    base = replace(with_draft(placement.request, draft), draft=None)
    given: dict[str, Any] = {} if batch.chunk is None else {"chunk": batch.chunk}
    is_file = arrivals.process.endswith(".csv")
    if is_file:
        base = replace_options(base, prompt_len=None, new_tokens=None)
    return make_request(
        ServeRequest,
        base=base,
        draft=acceptance_text(draft),
        draft_tokens=draft.tokens,
        arrivals=arrivals.process,
        rate=arrivals.rate,
        load=arrivals.load,
        requests=None if is_file else arrivals.requests or REQUESTS,
        burst=arrivals.burst,
        length_cv=arrivals.length_cv,
        seed=arrivals.seed,
        ttft=arrivals.ttft_s,
        tpot=arrivals.tpot_s,
        batching=batch.policy or CONTINUOUS,
        batch_wait=batch.wait_s,
        max_users=most_users,
        **given,
    )


def _arrived(result: ServeResult, tier: str | None, users: int) -> ArrivedResult:
    load, served = result.load, result.served
    found = ArrivedResult(
        tier=tier,
        users=users,
        capacity_requests_per_s=load.capacity_requests_per_s,
        offered=load.offered,
        stable=load.stable,
    )
    if served is None:
        return found
    tpot, cost, goodput = served.all.tpot, served.usd_per_million_tokens, served.goodput
    return replace(
        found,
        ttft_p50_s=served.all.ttft.p50,
        ttft_p99_s=served.all.ttft.p99,
        tokens_per_s_per_user=None if tpot is None else 1 / tpot.p50,
        usd_per_million_tokens=None if cost is None else cost.value,
        usd_per_million_tokens_low=None if cost is None else cost.range[0],
        usd_per_million_tokens_high=None if cost is None else cost.range[1],
        goodput=None if goodput is None else goodput.share,
    )
