"""Claims with the computations that decide them, their findings, and these as tables and JSON."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from wse.errors import BadInput
from wse.files import read_toml
from wse.reports.intervals import percent_text
from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST
from wse.studies.claims.certainty import Cases, Verdict, Verdicts, certainty_at_ends, certainty_of
from wse.studies.claims.shared_computations import SharedComputations

Points = tuple[tuple[float, float], ...]

CLAIMS_FILE: Final = Path(__file__).parents[2] / "data" / "claims.toml"
"""Claims with their sources, commands, answers and units of numbers, in the order of their numbers."""


class ClaimNumber(Result):
    """A computed number that supports the verdict on a claim, with its unit and meaning."""

    value: Annotated[float, Doc("the number")]
    unit: Annotated[str, Doc("unit of the number; empty for a ratio")]
    meaning: Annotated[str, Doc("what the number is")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The data of a line plot, with the labels and scales of its axes.

    Attributes:
        x, y: Labels of the horizontal and the vertical axis.
        lines: Points of each line, keyed by the line's name in the legend.
        log_x, log_y: Whether the axis is logarithmic.
    """

    x: str
    y: str
    lines: Mapping[str, Points]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Verdict on a claim about fast inference, with the computed numbers that support it.

    Attributes:
        verdicts: "true", "false", "conditional" or "undecided" with the stated constants, followed
            by the verdict for each sample of the uncertain constants.
        answer: Answer in a few sentences, with the most important numbers.
        numbers: Numbers on which the verdict is based, keyed by name.
        reason: Assumptions and computations behind the verdict.
        is_at_ends: True if ``verdicts`` has no samples but three elements: the verdict with the stated
            constants, with all uncertain constants at the low ends of their ranges, and with all of
            them at the high ends.
        curves: Content of the plot; None if there is no plot.
    """

    verdicts: Verdicts
    answer: str
    numbers: Mapping[str, ClaimNumber]
    reason: str
    is_at_ends: bool = False
    curves: Curves | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published statement about fast inference, and the function that decides if it is true.

    Attributes:
        number: Number of the claim in ``wse claims``, from 1.
        text: The statement, paraphrased.
        source: Publication or discussion in which the statement was made.
        command: A ``wse`` command that shows the figures.
        decide: Function that computes the finding.
        is_drawn: Whether the finding has a plot.
    """

    number: int
    text: str
    source: str
    command: str
    decide: Callable[[SharedComputations], Finding] = field(repr=False)
    is_drawn: bool = True


@cache
def claim_tables() -> dict[str, dict[str, Any]]:
    """Return the tables of `CLAIMS_FILE`, keyed by the name of the function that decides the claim."""
    return {table["decide"].partition(".")[2]: table for table in read_toml(CLAIMS_FILE, BadInput)["claims"]}


class _TextFormatter(string.Formatter):
    """Formatter of texts in which percentages have a space before the percent sign."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value, such as 0.5 as ``50 %`` with the format ``.0%``."""
        text = str(super().format_field(value, format_spec))
        return text.replace("%", " %") if format_spec.endswith("%") else text


class FindingBuilder:
    """Builder of the finding on one claim. It collects numbers and inserts them into texts.

    The texts, units and meanings are those in `CLAIMS_FILE`.

    Attributes:
        numbers: Numbers that were added, keyed by name.
    """

    def __init__(self, decide: str, /, **names: Any) -> None:
        """Create a builder that has no numbers yet.

        Args:
            decide: Name of the function that decides the claim.
            **names: Values for the names in braces in the claim's texts.
        """
        self.numbers: dict[str, ClaimNumber] = {}
        self._table = claim_tables()[decide]
        self._names = names

    def add(self, key: str, value: float | Cases, /, **names: Any) -> None:
        """Add a number.

        Args:
            key: Key of the number in `CLAIMS_FILE`, which may contain names in braces.
            value: The number, or an array whose first element is the number; other elements are
                ignored.
            **names: Values for the names in the key and in the meaning of the number, in addition
                to those of the claim.
        """
        number, names = self._table["numbers"][key], self._names | names
        name, meaning = (_TextFormatter().vformat(text, (), names) for text in (key, number["meaning"]))
        self.numbers[name] = ClaimNumber(value=float(np.ravel(value)[0]), unit=number["unit"], meaning=meaning)

    def finding(
        self,
        verdicts: Verdicts,
        lines: Mapping[str, Points] | None = None,
        /,
        *,
        is_at_ends: bool = False,
        **names: Any,
    ) -> Finding:
        """Return the finding with all numbers that were added.

        Args:
            verdicts: Verdicts, as in `Finding`.
            lines: Points of each line of the plot, keyed by the line's name in the legend; None
                without a plot.
            is_at_ends: Whether the verdicts are those at the ends of the constants' ranges, as in
                `Finding`.
            **names: Values for the names in braces in the answer, in addition to those of the claim.
        """
        values = {name: number.value for name, number in self.numbers.items()} | self._names | names
        answer, reason = (_TextFormatter().vformat(self._table[key], (), values) for key in ("answer", "reason"))
        curves = None
        if lines is not None:
            labels = self._table["curves"]
            curves = Curves(lines=lines, **labels | {"y": _TextFormatter().vformat(labels["y"], (), values)})
        return Finding(
            verdicts=verdicts,
            answer=answer,
            numbers=self.numbers,
            reason=reason,
            is_at_ends=is_at_ends,
            curves=curves,
        )


NUMBERS: tuple[Column, ...] = (
    number("value", "number", count),
    Column(key="unit"),
    Column(key="meaning", title="what it is", wraps=True),
)


class ClaimResult(Result):
    """A claim about fast inference, the verdict on it, and the numbers that support the verdict."""

    n: Annotated[int, Doc("number of the claim")]
    claim: Annotated[str, Doc("the claim, paraphrased")]
    command: Annotated[str, Doc("a command that shows the figures")]
    numbers: Annotated[Mapping[str, ClaimNumber], Doc("numbers on which the verdict is based; keys are names")]
    verdict: Annotated[Verdict, Doc("`true`, `false`, `conditional` or `undecided`; the most frequent in the samples")]
    certainty: Annotated[
        str, Doc("fraction of the samples with this verdict, and what would change it; ends if not sampled")
    ]
    share_of_samples: Annotated[float | None, Doc("fraction of the samples with this verdict; absent if not sampled")]
    samples: Annotated[int | None, Doc("number of samples of the uncertain constants; absent if not sampled")]
    decisive: Annotated[str | None, Doc("constant that differs most in samples with another verdict, if one does")]
    answer: Annotated[str, Doc("the answer in a few sentences")]
    reason: Annotated[str, Doc("assumptions and computations on which the verdict rests")]
    source: Annotated[str, Doc("where the claim was made")]


class ClaimsResult(Result):
    """The requested claims about fast inference, with the verdict on each."""

    claims: Annotated[tuple[ClaimResult, ...], Doc("the claims, in the order of their numbers")]
    note: Annotated[str | None, Doc("prices that were given but that none of the claims uses")] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return one table of all claims, or two tables (verdict and numbers) for each claim.

        Several claims are listed in one table, while a single claim has two tables. With
        ``detail``, every claim has two tables.
        """
        if len(self.claims) > 1 and not detail:
            return (_overview(self.claims, self.note),)
        return tuple(table for claim in self.claims for table in _tables_of(claim, self.note))


def claim_result(
    claim: Claim, finding: Finding, uncertain_names: Collection[str], wafer_price: str | None = None
) -> ClaimResult:
    """Combine a claim and the verdict on it into one result record.

    Args:
        claim: The claim.
        finding: The verdict on it.
        uncertain_names: Names of the uncertain numbers on which the verdict may depend.
        wafer_price: Given price of a wafer, in the format of ``--price``, which is added to the
            command; None for no price. The commands of claims with prices are for wafers.
    """
    certainty = (
        certainty_at_ends(finding.verdicts) if finding.is_at_ends else certainty_of(finding.verdicts, uncertain_names)
    )
    command = f"{claim.command} --price {wafer_price}" if wafer_price else claim.command
    texts = {"claim": claim.text, "command": command, "certainty": certainty.text}
    return ClaimResult.from_parts(claim, finding, certainty, n=claim.number, share_of_samples=certainty.share, **texts)


def _overview(claims: tuple[ClaimResult, ...], note: str | None) -> Table:
    """Return a table with the text, verdict and answer for each claim.

    Args:
        claims: The claims.
        note: Note below the table, or None.
    """
    columns = (
        number("n", "", count),
        Column(key="claim", wraps=True),
        Column(key="verdict"),
        number("share_of_samples", "samples", percent_text),
        Column(key="answer", title="answer", wraps=True, min_width=24),
    )
    return Table(
        columns=columns,
        rows=claims,
        title="Claims about fast inference",
        note="each decided by a computation; samples: share with this verdict; wse claims N explains one",
        footer=[("note", note)] if note else [],
    )


def _tables_of(claim: ClaimResult, note: str | None) -> tuple[Table, Table]:
    """Return two tables for a claim: the verdict with its reasons, and the supporting numbers.

    Args:
        claim: The claim.
        note: Note below the reasons, or None.
    """
    verdict_table = pair_table(
        [
            ("claim", claim.claim),
            ("verdict", claim.verdict),
            ("answer", claim.answer),
            ("certainty", claim.certainty),
            ("basis", claim.reason),
            ("source", claim.source),
            ("see it with", claim.command),
            *([("note", note)] if note else []),
        ],
        f"Claim {claim.n}",
    )
    return verdict_table, Table(columns=NUMBERS, rows=tuple(claim.numbers.values()), title="Numbers of this claim")
