"""``prefill`` and ``decode`` of a result: cycles, their causes, and rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.fabric.causes import CAUSES
from wse.fabric.clock import PhaseTotals
from wse.report.result import Doc, Result

Cause = Literal["hops", "relays", "compute", "launch", "crossing", "host"]
"""What cycles are spent on, in the order of the JSON keys (`wse.fabric.causes`)."""
CyclesBy = Mapping[Cause, float]


@dataclass(frozen=True, kw_only=True)
class PrefillResult(Result):
    """The prompts of all users, read one after another."""

    cycles: Annotated[float, Doc("all chunks of all prompts", "cycles")]
    s: Annotated[float, Doc("the same as time", "s")]
    tokens_per_s: Annotated[float, Doc("tokens of prompts over that time", "tokens/s")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles by cause", "cycles")]


@dataclass(frozen=True, kw_only=True)
class DecodeResult(Result):
    """The mean over the decoded tokens; in the cycles of one each user of the batch gets a token."""

    cycles_per_token: Annotated[float, Doc("a token of each user", "cycles")]
    cycles_per_layer: Annotated[float, Doc("a layer of it", "cycles")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens that each user gets", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("tokens that all users of the batch get", "tokens/s")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles of a token by cause; adds up to `cycles_per_token`", "cycles")]
    after_tokens: Annotated[int | None, Doc("tokens before the one that is timed; of compile")] = None
    routing: Annotated[str | None, Doc("`even`: experts are taken to be chosen evenly; of compile")] = None


def prefill_result(totals: PhaseTotals, prompt_tokens: int, clock_hz: float) -> PrefillResult:
    """The totals of prefill as a result; ``prompt_tokens`` are those of all prompts."""
    seconds = totals.cycles / clock_hz
    return PrefillResult(
        cycles=totals.cycles,
        s=seconds,
        tokens_per_s=prompt_tokens / seconds,
        cycles_by=_by_cause(totals, 1),
    )


def decode_result(
    totals: PhaseTotals,
    layers: int,
    clock_hz: float,
    batch: int,
    *,
    after_tokens: int | None = None,
    routing: str | None = None,
) -> DecodeResult:
    """The totals of decoded tokens as means; ``cycles_by`` sums exactly to ``cycles_per_token``."""
    by = _by_cause(totals, totals.runs)
    cycles = sum(by.values())
    return DecodeResult(
        cycles_per_token=cycles,
        cycles_per_layer=totals.layer_cycles / totals.runs / layers,
        tokens_per_s_per_user=clock_hz / cycles,
        tokens_per_s=batch * clock_hz / cycles,
        cycles_by=by,
        after_tokens=after_tokens,
        routing=routing,
    )


def _by_cause(totals: PhaseTotals, runs: int) -> CyclesBy:
    return {cause: float(value) / runs for cause, value in zip(CAUSES, totals.by_cause, strict=True)}  # type: ignore[misc]
