"""``verify`` of a run: the passes that verified drafts, the tokens that they gave, and what all generation took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.fabric.run_totals import RunTotals
from wse.report.result import Doc, Result
from wse.report.table import Table, pair_table
from wse.report.terminal import count
from wse.studies.results.phases import CyclesBy, cycles_by_cause


@dataclass(frozen=True, kw_only=True)
class VerifiedResult(Result):
    """Passes over several new tokens of the user, the next one and drafted ones; a plain pass where nothing is drafted.

    Drafts are looked up in the text so far, on the host and at no cost.
    """

    tokens: Annotated[int, Doc("tokens of a pass: the next one, and those that are drafted after it")]
    passes: Annotated[int, Doc("passes that verified a draft")]
    accepted_per_pass: Annotated[float | None, Doc("drafted tokens that a pass found right, in the mean")]
    cycles_per_pass: Annotated[float | None, Doc("a pass, in the mean", "cycles")]
    cycles_by: Annotated[CyclesBy | None, Doc("the cycles of a pass by cause", "cycles")]
    tokens_per_s: Annotated[
        float | None, Doc("tokens behind the first over the time of these and of plain passes", "tokens/s")
    ]


def verified_result(clock: RunTotals, accepted_tokens: int, generated_tokens: int, clock_hz: float) -> VerifiedResult:
    """The totals of a run whose passes accepted so many drafted tokens; generated ones are those behind the first."""
    totals, cycles = clock.verify, clock.decode.cycles + clock.verify.cycles
    return VerifiedResult(
        tokens=clock.fabric.program.verify_tokens,
        passes=totals.runs,
        accepted_per_pass=accepted_tokens / totals.runs if totals.runs else None,
        cycles_per_pass=totals.cycles / totals.runs if totals.runs else None,
        cycles_by=cycles_by_cause(totals.by_cause / totals.runs) if totals.runs else None,
        tokens_per_s=generated_tokens * clock_hz / cycles if cycles else None,
    )


def verified_table(verified: VerifiedResult) -> Table:
    """Passes, what they accepted of drafts, and the speed with them."""
    has_drafts = verified.tokens > 1
    others = f" over {verified.tokens} tokens, the others over one" if has_drafts else ", each a user's next token"
    rows = [("passes", f"{count(verified.passes)}{others}")]
    if verified.accepted_per_pass is not None and verified.cycles_per_pass is not None:
        if has_drafts:
            accepted = f"{verified.accepted_per_pass:.2f} of {verified.tokens - 1} drafted tokens a pass"
            rows.append(("accepted", accepted))
        rows.append(("a pass", f"{count(verified.cycles_per_pass)} cycles"))
    if verified.tokens_per_s is not None:
        rows.append(("in all", f"{count(verified.tokens_per_s)} tokens/s"))
    if not has_drafts:
        return pair_table(rows, "Generation", "users in turn")
    return pair_table(rows, "Drafts", "looked up in the text so far")
