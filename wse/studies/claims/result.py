"""ClaimsResult: the claims and what was found of each, as a table, a page and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, count
from wse.studies.claims.claim import CONFIDENCE, Claim, ClaimNumber, Confidence, Curves, Finding, Verdict

NUMBERS: tuple[Column, ...] = (
    number("value", "number", count),
    Column(key="unit"),
    Column(key="meaning", title="what it is", wraps=True),
)


@dataclass(frozen=True, kw_only=True)
class ClaimResult(Result):
    """A claim and what a computation found of it."""

    n: Annotated[int, Doc("number of the claim")]
    claim: Annotated[str, Doc("the claim, paraphrased")]
    command: Annotated[str, Doc("a command that shows the figures it is decided on")]
    numbers: Annotated[Mapping[str, ClaimNumber], Doc("the numbers that decide, by name")]
    verdict: Annotated[Verdict, Doc("`true`, `false`, `conditional` or `undecided`")]
    answer: Annotated[str, Doc("the answer in a sentence or two")]
    confidence: Annotated[Confidence, Doc("`high`, `medium` or `low`")]
    reason: Annotated[str, Doc("why no more confidence, and no less")]
    source: Annotated[str, Doc("where the claim was made")]


@dataclass(frozen=True, kw_only=True)
class ClaimsResult(Result):
    """The claims that were requested."""

    claims: Annotated[tuple[ClaimResult, ...], Doc("the claims, in the order of their numbers")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return all claims in one table; of a claim alone, or with ``detail``, its numbers too."""
        if len(self.claims) > 1 and not detail:
            return (_overview(self.claims),)
        return tuple(table for claim in self.claims for table in _tables_of(claim))


def claim_result(claim: Claim, finding: Finding) -> ClaimResult:
    """Return the result of a claim."""
    return ClaimResult(
        n=claim.number,
        claim=claim.text,
        command=claim.command,
        numbers=finding.numbers,
        verdict=finding.verdict,
        answer=finding.answer,
        confidence=finding.confidence,
        reason=finding.reason,
        source=claim.source,
    )


def _overview(claims: tuple[ClaimResult, ...]) -> Table:
    columns = (
        number("n", "", count),
        Column(key="claim", wraps=True),
        Column(key="verdict"),
        Column(key="answer", title="because", wraps=True, min_width=24),
        Column(key="confidence", title="sure", priority=1),
    )
    return Table(
        columns=columns,
        rows=claims,
        title="Claims about fast inference",
        note="each decided by a computation; wse claims N explains one",
        footer=tuple((f"sure: {name}", text) for name, text in CONFIDENCE.items()),
    )


def _tables_of(claim: ClaimResult) -> tuple[Table, Table]:
    """Return what was found of a claim, and its numbers."""
    found = pair_table(
        [
            ("claim", claim.claim),
            ("verdict", claim.verdict),
            ("answer", claim.answer),
            ("sure", f"{claim.confidence}: {claim.reason}"),
            ("made by", claim.source),
            ("see it with", claim.command),
        ],
        f"Claim {claim.n}",
    )
    return found, Table(columns=NUMBERS, rows=tuple(claim.numbers.values()), title="Its numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The result of some claims, and the curves of those that have any, by number."""

    result: ClaimsResult
    curves: Mapping[int, Curves]
