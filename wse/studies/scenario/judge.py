"""The judgement of a combination: each of its predictions against each published figure that is of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.result import (
    CONSISTENT,
    NEAR,
    RULED_OUT,
    AgainstResult,
    Agreement,
    CombinationResult,
    PublishedResult,
)

WORDS = {"about": "", "at_least": "at least ", "at_most": "at most "}


def judged(combination: CombinationResult, published: Sequence[PublishedResult]) -> CombinationResult:
    """A combination set against what is published of its machine, and its agreement with all figures that decide.

    One that cannot be is ruled out; one of which nothing is published that decides has no agreement.
    """
    if combination.prediction is None:
        return replace(combination, agreement=RULED_OUT)
    of_it = [(index, one) for index, one in enumerate(published) if _is_of(one, combination)]
    rows = [row for index, one in of_it if (row := _against(combination, index, one)) is not None]
    decisive = [row for row in rows if published[row.published].decides]
    faults = tuple(fault_text(published[row.published], row) for row in decisive if row.agreement == RULED_OUT)
    agreements = [row.agreement for row in decisive]
    agreement = next((found for found in (RULED_OUT, NEAR, CONSISTENT) if found in agreements), None)
    return replace(combination, against=tuple(rows) or None, agreement=agreement, ruled_out_by=faults or None)


def agreement_of(published: PublishedResult, predicted: float) -> Agreement:
    """Whether a prediction agrees with a published figure, within the figure's tolerance."""
    error = predicted / published.value - 1
    if published.relation == "about":
        return CONSISTENT if abs(error) <= published.tolerance else RULED_OUT
    beyond = -error if published.relation == "at_least" else error
    return CONSISTENT if beyond <= 0 else NEAR if beyond <= published.tolerance else RULED_OUT


def fault_text(published: PublishedResult, row: AgainstResult) -> str:
    """The figure that rules a combination out, in words."""
    figure = FIGURES[published.figure]
    return f"{figure.title}: {figure.text(row.predicted)}, published {published_text(published)}"


def published_text(published: PublishedResult) -> str:
    """A published figure in words, such as ``at least 1,000 tokens/s``."""
    return f"{WORDS[published.relation]}{FIGURES[published.figure].text(published.value)}"


def _is_of(published: PublishedResult, combination: CombinationResult) -> bool:
    pairs = (
        (published.machines, combination.machine),
        (published.dtypes, combination.dtype),
        (published.drafts, combination.drafts),
    )
    return all(names is None or name in names for names, name in pairs)


def _against(combination: CombinationResult, index: int, published: PublishedResult) -> AgainstResult | None:
    """A prediction against a figure; None where the combination has no such figure."""
    predicted = FIGURES[published.figure].of(combination)
    if predicted is None:
        return None
    return AgainstResult(
        published=index,
        predicted=predicted,
        error_pct=100 * (predicted / published.value - 1),
        agreement=agreement_of(published, predicted),
    )
