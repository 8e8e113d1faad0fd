"""Records of the command ``claims``: a claim, the computation that decides it, and the finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from wse.reports.result import Doc, Result
from wse.studies.claims.laboratory import Laboratory

Verdict = Literal["true", "false", "conditional", "undecided"]
"""Verdict on a claim. ``conditional`` means that the claim is true under a condition stated in the
answer."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
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
        verdict: "true", "false", "conditional" or "undecided".
        answer: Answer in a few sentences, with the most important numbers.
        numbers: Numbers on which the verdict is based, keyed by name.
        reason: Assumptions and computations behind the verdict.
        curves: Content of the plot; None if there is no plot.
    """

    verdict: Verdict
    answer: str
    numbers: Mapping[str, ClaimNumber]
    reason: str
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
    decide: Callable[[Laboratory], Finding] = field(repr=False)
    is_drawn: bool = True


def figure(value: float, unit: str, meaning: str) -> ClaimNumber:
    """Create an item of `Finding.numbers`: a number that supports a verdict.

    Args:
        value: The number.
        unit: Unit of the number; empty for a ratio.
        meaning: What the number means, as a phrase for tables.
    """
    return ClaimNumber(value=value, unit=unit, meaning=meaning)


def by_rule(*, holds: bool, never: bool) -> Verdict:
    """Return the verdict on a claim that has been tested in several cases.

    Args:
        holds: Whether the claim is true in all cases. The verdict is then "true".
        never: Whether the claim is true in no case. The verdict is then "false".

    Returns:
        "true", "false", or "conditional" if the claim is true in some of the cases.
    """
    return "true" if holds else "false" if never else "conditional"
