"""``verify`` of a run: the passes that verified drafts, the tokens that they gave, and what all generation took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from wse.backends.fabric.run_totals import RunTotals
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import count, printable
from wse.studies.options.draft import HOST, NGRAM, SAME, WAFER
from wse.studies.results.phases import CyclesBy, cycles_by_cause
from wse.studies.run.drafts.drafts import Drafter


class AcceptanceCounts:
    """Counts of the drafted tokens that passes accepted, by their position in a draft of ``tokens``.

    Attributes:
        verified: By position, tokens that were decided on: all before them in their draft were accepted.
        accepted: By position, those of them that were accepted.
    """

    def __init__(self, tokens: int) -> None:
        self.verified, self.accepted = [0] * tokens, [0] * tokens

    def add(self, accepted: int) -> None:
        """Count a pass that accepted the first so many tokens of its draft."""
        for position in range(len(self.verified)):
            self.verified[position] += position <= accepted
            self.accepted[position] += position < accepted


@dataclass(frozen=True, kw_only=True)
class DraftResult(Result):
    """The drafts of a run: what was accepted of them, and what they took."""

    name: Annotated[str, Doc("the draft model, or `ngram`")]
    place: Annotated[str, Doc("where drafts are made: `same`, `wafer` or `host`")]
    verified: Annotated[
        tuple[int, ...], Doc("drafted tokens that were decided on, by position: all before them were accepted")
    ]
    accepted: Annotated[tuple[int, ...], Doc("those of them that were accepted")]
    acceptance: Annotated[tuple[float | None, ...], Doc("the second over the first; null where there were none")]
    tokens_per_pass: Annotated[
        float | None, Doc("tokens that a pass over a draft gave, its own one among them, in the mean")
    ]
    passes: Annotated[int, Doc("passes of the draft model; 0 for `ngram`")]
    cycles: Annotated[float, Doc("the model's wait for drafts, with the ways of ids", "cycles")]


@dataclass(frozen=True, kw_only=True)
class VerifiedResult(Result):
    """Passes over several new tokens of the user, the next one and drafted ones; a plain pass where nothing is drafted.

    What plain passes would have taken is timed on the same Program, token by token.
    """

    tokens: Annotated[int, Doc("tokens of a pass: the next one, and those that are drafted after it")]
    passes: Annotated[int, Doc("passes that verified a draft")]
    accepted_per_pass: Annotated[float | None, Doc("drafted tokens that a pass accepted, in the mean")]
    cycles_per_pass: Annotated[float | None, Doc("a pass, in the mean", "cycles")]
    cycles_by: Annotated[CyclesBy | None, Doc("the cycles of a pass by cause", "cycles")]
    tokens_per_s: Annotated[
        float | None,
        Doc("tokens behind the first over the time of these and of plain passes, and of drafts", "tokens/s"),
    ]
    plain_tokens_per_s: Annotated[
        float | None, Doc("the same tokens over the time that plain passes of one user take", "tokens/s")
    ] = None
    speed_up: Annotated[float | None, Doc("the first over the second; of runs with drafts")] = None
    draft: Annotated[DraftResult | None, Doc("the drafts; of passes over more than one token")] = None


def draft_result(drafter: Drafter, counts: AcceptanceCounts, clock: RunTotals) -> DraftResult:
    """Return the drafts of a run whose model waited as its clock says."""
    pairs = list(zip(counts.accepted, counts.verified, strict=True))
    passes = clock.verify.runs
    return DraftResult(
        name=drafter.name,
        place=drafter.place,
        verified=tuple(counts.verified),
        accepted=tuple(counts.accepted),
        acceptance=tuple(accepted / verified if verified else None for accepted, verified in pairs),
        tokens_per_pass=1 + sum(counts.accepted) / passes if passes else None,
        passes=drafter.passes,
        cycles=clock.draft_cycles,
    )


def verified_result(
    clock: RunTotals,
    prompt_tokens: Sequence[int],
    generated_tokens: Sequence[int],
    clock_hz: float,
    draft: DraftResult | None,
) -> VerifiedResult:
    """Return the totals of a run; generated tokens, by user, are those behind the first."""
    totals = clock.verify
    cycles = clock.decode.cycles + clock.verify.cycles + clock.draft_cycles
    tokens_per_s = sum(generated_tokens) * clock_hz / cycles if cycles else None
    plain = None
    if draft is not None and cycles:
        (prompt,), (generated,) = prompt_tokens, generated_tokens
        classes = clock.fabric.decode_costs([prompt], generated)
        plain = generated * clock_hz / sum(one.tokens * one.cost.cycles for one in classes)
    accepted = None if draft is None or not totals.runs else sum(draft.accepted) / totals.runs
    return VerifiedResult(
        tokens=clock.fabric.program.verify_tokens,
        passes=totals.runs,
        accepted_per_pass=accepted if draft is not None or not totals.runs else 0.0,
        cycles_per_pass=totals.cycles / totals.runs if totals.runs else None,
        cycles_by=cycles_by_cause(totals.by_cause / totals.runs) if totals.runs else None,
        tokens_per_s=tokens_per_s,
        plain_tokens_per_s=plain,
        speed_up=tokens_per_s / plain if tokens_per_s and plain else None,
        draft=draft,
    )


_PLACES: Final = {SAME: "beside the model on its wafer", WAFER: "on another wafer", HOST: "on the host"}


def verified_table(verified: VerifiedResult) -> Table:
    """Passes, what they accepted of drafts, and the speed with them."""
    draft = verified.draft
    others = f" over {verified.tokens} tokens, the others over one" if draft else ", each a user's next token"
    rows = [("passes", f"{count(verified.passes)}{others}")]
    if draft is not None and verified.accepted_per_pass is not None:
        of_draft = f"{verified.accepted_per_pass:.2f} of {verified.tokens - 1} drafted tokens a pass"
        rows.append(("accepted", of_draft))
        shares = " ".join("-" if share is None else f"{100 * share:.0f}%" for share in draft.acceptance)
        rows.append(("by position", f"{shares}, where all before were accepted"))
    if verified.cycles_per_pass is not None:
        rows.append(("a pass", f"{count(verified.cycles_per_pass)} cycles"))
    if draft is not None and verified.passes:
        rows.append(("a draft", f"{count(draft.cycles / verified.passes)} cycles a pass"))
    if verified.tokens_per_s is not None:
        rows.append(("in all", f"{count(verified.tokens_per_s)} tokens/s"))
    if verified.speed_up is not None and verified.plain_tokens_per_s is not None:
        plain = f"{count(verified.plain_tokens_per_s)} tokens/s, so drafts make it {verified.speed_up:.2f} x as fast"
        rows.append(("without", plain))
    if draft is None:
        return pair_table(rows, "Generation", "users in turn")
    made = "looked up in the text so far" if draft.name == NGRAM else printable(f"of {draft.name}")
    return pair_table(rows, "Drafts", f"{made}, {_PLACES[draft.place]}")
