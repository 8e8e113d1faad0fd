"""Claim and Finding: a sentence that people argue about, the computation that decides it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from wse.reports.result import Doc, Result
from wse.studies.claims.laboratory import Laboratory

Verdict = Literal["true", "false", "conditional", "undecided"]
"""The verdict of a computation on a claim; ``conditional``: it holds under a condition that the answer names."""

Confidence = Literal["high", "medium", "low"]

CONFIDENCE: Final[Mapping[Confidence, str]] = {
    "high": "the verdict is the same at both ends of every assumption that was tried",
    "medium": "it rests on assumed constants, and would need errors of more than a half to change",
    "low": "it changes within the range of an assumption, or rests on figures that nobody has published",
}

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class ClaimNumber(Result):
    """A number that decides a claim."""

    value: Annotated[float, Doc("the number")]
    unit: Annotated[str, Doc("its unit; empty for a ratio")]
    meaning: Annotated[str, Doc("what it is")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Lines of a plot, by name, with what lies along the axes."""

    x: str
    y: str
    lines: Mapping[str, Points]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the computation that decides a claim.

    Attributes:
        verdict: What it says of the claim.
        answer: The answer in one or two sentences, with its numbers.
        numbers: The numbers that decide, by name.
        confidence: How far the verdict is to be trusted (`CONFIDENCE`).
        reason: Why no further.
        curves: What a plot of it shows; None where there is nothing to see.
    """

    verdict: Verdict
    answer: str
    numbers: Mapping[str, ClaimNumber]
    confidence: Confidence
    reason: str
    curves: Curves | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim, and how it is decided.

    Attributes:
        number: Its number in the list, from 1.
        text: The claim, paraphrased.
        source: Where it was made.
        command: A command that shows the figures it is decided on.
        decide: The computation.
        is_drawn: Whether there is a plot of it.
    """

    number: int
    text: str
    source: str
    command: str
    decide: Callable[[Laboratory], Finding] = field(repr=False)
    is_drawn: bool = True


def figure(value: float, unit: str, meaning: str) -> ClaimNumber:
    """Return a number that decides a claim."""
    return ClaimNumber(value=value, unit=unit, meaning=meaning)


def by_rule(*, holds: bool, never: bool) -> Verdict:
    """True where a claim holds in all cases that were tried, false where in none, else conditional."""
    return "true" if holds else "false" if never else "conditional"
