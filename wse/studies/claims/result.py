"""Result of ``wse claims``: the claims with their findings, as tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, count
from wse.studies.claims.claim import Claim, ClaimNumber, Curves, Finding, Verdict

NUMBERS: tuple[Column, ...] = (
    number("value", "number", count),
    Column(key="unit"),
    Column(key="meaning", title="what it is", wraps=True),
)


@dataclass(frozen=True, kw_only=True)
class ClaimResult(Result):
    """A claim about fast inference, the verdict on it, and the numbers that support the verdict."""

    n: Annotated[int, Doc("number of the claim")]
    claim: Annotated[str, Doc("the claim, paraphrased")]
    command: Annotated[str, Doc("a command that shows the figures")]
    numbers: Annotated[Mapping[str, ClaimNumber], Doc("numbers on which the verdict is based; keys are names")]
    verdict: Annotated[Verdict, Doc("`true`, `false`, `conditional` or `undecided`")]
    answer: Annotated[str, Doc("the answer in a few sentences")]
    reason: Annotated[str, Doc("assumptions and computations on which the verdict rests")]
    source: Annotated[str, Doc("where the claim was made")]


@dataclass(frozen=True, kw_only=True)
class ClaimsResult(Result):
    """The requested claims about fast inference, with the verdict on each."""

    claims: Annotated[tuple[ClaimResult, ...], Doc("the claims, in the order of their numbers")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return one table of all claims, or two tables (verdict and numbers) for each claim.

        Several claims are listed in one table, while a single claim has two tables. With
        ``detail``, every claim has two tables.
        """
        if len(self.claims) > 1 and not detail:
            return (_overview(self.claims),)
        return tuple(table for claim in self.claims for table in _tables_of(claim))


def claim_result(claim: Claim, finding: Finding) -> ClaimResult:
    """Combine a claim and the verdict on it into one result record."""
    return ClaimResult(
        n=claim.number,
        claim=claim.text,
        command=claim.command,
        numbers=finding.numbers,
        verdict=finding.verdict,
        answer=finding.answer,
        reason=finding.reason,
        source=claim.source,
    )


def _overview(claims: tuple[ClaimResult, ...]) -> Table:
    """Return a table with the text, verdict and answer for each claim."""
    columns = (
        number("n", "", count),
        Column(key="claim", wraps=True),
        Column(key="verdict"),
        Column(key="answer", title="answer", wraps=True, min_width=24),
    )
    return Table(
        columns=columns,
        rows=claims,
        title="Claims about fast inference",
        note="each decided by a computation; wse claims N explains one",
    )


def _tables_of(claim: ClaimResult) -> tuple[Table, Table]:
    """Return two tables for a claim: the verdict with its reasons, and the supporting numbers."""
    verdict_table = pair_table(
        [
            ("claim", claim.claim),
            ("verdict", claim.verdict),
            ("answer", claim.answer),
            ("basis", claim.reason),
            ("source", claim.source),
            ("see it with", claim.command),
        ],
        f"Claim {claim.n}",
    )
    return verdict_table, Table(columns=NUMBERS, rows=tuple(claim.numbers.values()), title="Numbers of this claim")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Result of ``wse claims``: verdicts on claims about fast inference, and their plots.

    Attributes:
        result: The verdicts on the claims.
        curves: Content of the plots, keyed by claim number. Some claims have no plot.
    """

    result: ClaimsResult
    curves: Mapping[int, Curves]
