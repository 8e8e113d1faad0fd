"""Agreement: each prediction of a combination against each published figure that is of it, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.reports.terminal import count, plural
from wse.studies.scenario.figures import FIGURES, nearest_of, published_text
from wse.studies.scenario.form import CONSISTENT, NEAR, RULED_OUT, Agreement
from wse.studies.scenario.result import AgainstResult, CombinationResult, PublishedResult


def judged(combination: CombinationResult, published: Sequence[PublishedResult]) -> CombinationResult:
    """Return a combination with its agreement with what is published of it: the worst of the figures that decide.

    One that cannot be is ruled out; one of which nothing is published that decides has no agreement.
    """
    if combination.prediction is None:
        return replace(combination, agreement=RULED_OUT)
    rows = [
        AgainstResult(
            published=index,
            predicted=predicted,
            error_pct=100 * (predicted / one.value - 1),
            agreement=agreement_of(one, predicted),
        )
        for index, one in enumerate(published)
        if _is_of(one, combination) and (predicted := FIGURES[one.figure].of(combination)) is not None
    ]
    decisive = [row for row in rows if published[row.published].decides]
    faults = tuple(_fault_text(published[row.published], row) for row in decisive if row.agreement == RULED_OUT)
    agreements = [row.agreement for row in decisive]
    agreement = next((found for found in (RULED_OUT, NEAR, CONSISTENT) if found in agreements), None)
    return replace(combination, against=tuple(rows) or None, agreement=agreement, ruled_out_by=faults or None)


def agreement_of(published: PublishedResult, predicted: float) -> Agreement:
    """Return whether a prediction agrees with a published figure, within the figure's tolerance."""
    error = predicted / published.value - 1
    if published.relation == "about":
        return CONSISTENT if abs(error) <= published.tolerance else RULED_OUT
    beyond = -error if published.relation == "at_least" else error
    return CONSISTENT if beyond <= 0 else NEAR if beyond <= published.tolerance else RULED_OUT


def _fault_text(published: PublishedResult, row: AgainstResult) -> str:
    """Return the figure that rules a combination out, in words."""
    figure = FIGURES[published.figure]
    return f"{figure.title}: {figure.text(row.predicted)}, published {published_text(published)}"


def _is_of(published: PublishedResult, combination: CombinationResult) -> bool:
    pairs = (
        (published.machines, combination.machine),
        (published.dtypes, combination.dtype),
        (published.drafts, combination.drafts),
    )
    return all(names is None or name in names for names, name in pairs)


def verdict_of(combinations: Sequence[CombinationResult], published: Sequence[PublishedResult]) -> tuple[str, ...]:
    """Return how many combinations agree, and the nearest to the first figure that decides, or the fastest."""
    possible = [one for one in combinations if one.prediction is not None]
    cannot, compared = len(combinations) - len(possible), sum(one.agreement is not None for one in combinations)
    first = next((index for index, one in enumerate(published) if one.decides), None)
    if first is None:
        quick = max(possible, key=lambda one: one.speed)
        fastest = f"Fastest for a user is {quick.settings}: {count(quick.speed)} tokens/s."
        return f"{len(possible):,} of {plural(len(combinations), 'combination')} can be.", fastest
    times = {word: sum(one.agreement == word for one in combinations) for word in (CONSISTENT, NEAR, RULED_OUT)}
    told = (
        f"{times[CONSISTENT]:,} of {plural(compared, 'combination')} agree with what is published, "
        f"{times[NEAR]:,} more within the tolerance; "
        f"{times[RULED_OUT]:,} are ruled out, {cannot:,} of them as they cannot be."
    )
    nearest = nearest_of(combinations, first)
    if nearest is None:
        return (told,)
    figure, (one, row) = published[first], nearest
    predicted = FIGURES[figure.figure].text(row.predicted)
    against = f"{predicted} predicted against {published_text(figure)} ({row.error_pct:+.0f} %)"
    return told, f"Nearest is {one.settings}: {against}."
