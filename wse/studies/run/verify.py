"""Results of the passes that verify draft tokens, and the table that prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from wse.backends.fabric.run_totals import RunTotals
from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import printable
from wse.studies.options.drafts.draft import HOST, NGRAM, SAME, WAFER
from wse.studies.results.phases import CyclesBy, cycles_by_cause
from wse.studies.run.drafts import Drafter


class AcceptanceCounts:
    """Numbers of verified and accepted draft tokens, by position in the draft.

    Attributes:
        verified: For each position, the number of draft tokens whose predecessors were all
            accepted. Only these tokens were compared with the model's own choice.
        accepted: For each position, the number of accepted draft tokens.
    """

    def __init__(self, tokens: int) -> None:
        self.verified, self.accepted = [0] * tokens, [0] * tokens

    def add(self, accepted: int) -> None:
        """Count a verification pass in which the first ``accepted`` draft tokens were accepted."""
        for position in range(len(self.verified)):
            self.verified[position] += position <= accepted
            self.accepted[position] += position < accepted


class DraftResult(Result):
    """Draft tokens of a run (speculative decoding): number accepted, and time to make them."""

    name: Annotated[str, Doc("name of the draft model, or `ngram`")]
    place: Annotated[str, Doc("where drafts are made: `same`, `wafer` or `host`")]
    verified: Annotated[
        tuple[int, ...], Doc("by position in the draft, draft tokens whose predecessors were all accepted")
    ]
    accepted: Annotated[tuple[int, ...], Doc("by position in the draft, draft tokens that were accepted")]
    acceptance: Annotated[
        tuple[float | None, ...], Doc("`accepted` over `verified`; null for positions that were never verified")
    ]
    tokens_per_pass: Annotated[
        float | None, Doc("mean tokens per verification pass, including the model's own next token")
    ]
    passes: Annotated[int, Doc("passes of the draft model; 0 for `ngram`")]
    cycles: Annotated[
        float, Doc("cycles that the model waited for drafts, including the exchange of token ids", "cycles")
    ]


class VerifiedResult(Result):
    """Number, cycles and speed of a run's verification passes.

    A verification pass runs the model over a user's next token and the draft tokens (speculative
    decoding). Without drafts, it processes only the next token. With drafts, the result also
    contains the speed that the same compiled model has without speculative decoding.
    """

    tokens: Annotated[int, Doc("tokens of a pass: the next token and its draft tokens")]
    passes: Annotated[int, Doc("number of verification passes")]
    accepted_per_pass: Annotated[float | None, Doc("mean draft tokens accepted per pass")]
    cycles_per_pass: Annotated[float | None, Doc("mean cycles of a pass", "cycles")]
    cycles_by: Annotated[CyclesBy | None, Doc("mean cycles of a pass by cause", "cycles")]
    tokens_per_s: Annotated[
        float | None,
        Doc("tokens after the first, over the time of all passes and drafts", "tokens/s"),
    ]
    plain_tokens_per_s: Annotated[
        float | None, Doc("the same tokens over the time that they would take without drafts", "tokens/s")
    ] = None
    speed_up: Annotated[float | None, Doc("`tokens_per_s` over `plain_tokens_per_s`; with drafts")] = None
    draft: Annotated[DraftResult | None, Doc("the drafts; for passes over more than one token")] = None


def draft_result(drafter: Drafter, counts: AcceptanceCounts, clock: RunTotals) -> DraftResult:
    """Return how many draft tokens of a run were accepted, and how long the model waited for them.

    Args:
        drafter: Source of the drafts: a draft model or a look-up in the text.
        counts: Number of accepted draft tokens by position.
        clock: Totals of the run, including the number of passes and the cycles spent on drafts.
    """
    pairs = list(zip(counts.accepted, counts.verified, strict=True))
    passes = clock.verify.runs
    return DraftResult.from_parts(
        drafter,
        verified=tuple(counts.verified),
        accepted=tuple(counts.accepted),
        acceptance=tuple(accepted / verified if verified else None for accepted, verified in pairs),
        tokens_per_pass=1 + sum(counts.accepted) / passes if passes else None,
        cycles=clock.draft_cycles,
    )


def verified_result(
    clock: RunTotals,
    prompt_tokens: Sequence[int],
    generated_tokens: Sequence[int],
    clock_hz: float,
    draft: DraftResult | None,
) -> VerifiedResult:
    """Return the cycle count of a run's verification passes, and the speed in tokens per second.

    The speed includes the time of decode passes and of drafting.

    Args:
        clock: Cycles and traffic of the run.
        prompt_tokens: Length of each user's prompt.
        generated_tokens: Number of tokens generated for each user after the first one.
        clock_hz: Clock frequency of the wafer.
        draft: Number of accepted draft tokens, and cycles spent on drafting. None if the run has no
            drafts.
    """
    totals = clock.verify
    cycles = clock.decode.cycles + clock.verify.cycles + clock.draft_cycles
    tokens_per_s = sum(generated_tokens) * clock_hz / cycles if cycles else None
    plain_tokens_per_s = None
    if draft is not None and cycles:
        (prompt_length,), (user_tokens,) = prompt_tokens, generated_tokens
        token_classes = clock.fabric.decode_costs([prompt_length], user_tokens)
        plain_tokens_per_s = (
            user_tokens * clock_hz / sum(token_class.tokens * token_class.cost.cycles for token_class in token_classes)
        )
    accepted_per_pass = None if draft is None or not totals.runs else sum(draft.accepted) / totals.runs
    return VerifiedResult(
        tokens=clock.fabric.program.verify_tokens,
        passes=totals.runs,
        accepted_per_pass=accepted_per_pass if draft is not None or not totals.runs else 0.0,
        cycles_per_pass=totals.cycles / totals.runs if totals.runs else None,
        cycles_by=cycles_by_cause(totals.by_cause / totals.runs) if totals.runs else None,
        tokens_per_s=tokens_per_s,
        plain_tokens_per_s=plain_tokens_per_s,
        speed_up=tokens_per_s / plain_tokens_per_s if tokens_per_s and plain_tokens_per_s else None,
        draft=draft,
    )


_PLACES: Final = {SAME: "next to the model on its wafer", WAFER: "on another wafer", HOST: "on the host"}


def verified_table(verified: VerifiedResult) -> Table:
    """Build the table of a run's verification passes: count, cycles, accepted drafts and speed."""
    draft = verified.draft
    pass_text = f" over {verified.tokens} tokens, the others over one" if draft else ", each a user's next token"
    rows = [("passes", f"{count(verified.passes)}{pass_text}")]
    if draft is not None and verified.accepted_per_pass is not None:
        accepted_text = f"{verified.accepted_per_pass:.2f} of {verified.tokens - 1} draft tokens per pass"
        rows.append(("accepted", accepted_text))
        percentages = " ".join(
            "-" if probability is None else f"{100 * probability:.0f}%" for probability in draft.acceptance
        )
        rows.append(("by position", f"{percentages}, where all before were accepted"))
    if verified.cycles_per_pass is not None:
        rows.append(("verification", f"{count(verified.cycles_per_pass)} cycles per pass"))
    if draft is not None and verified.passes:
        rows.append(("drafting", f"{count(draft.cycles / verified.passes)} cycles per pass"))
    if verified.tokens_per_s is not None:
        rows.append(("in total", f"{count(verified.tokens_per_s)} tokens/s"))
    if verified.speed_up is not None and verified.plain_tokens_per_s is not None:
        plain = f"{count(verified.plain_tokens_per_s)} tokens/s; drafts make it {verified.speed_up:.2f} times as fast"
        rows.append(("without drafts", plain))
    if draft is None:
        return pair_table(rows, "Generation", "users round-robin")
    source_text = "looked up in the text so far" if draft.name == NGRAM else printable(f"of {draft.name}")
    return pair_table(rows, "Drafts", f"{source_text}, {_PLACES[draft.place]}")
