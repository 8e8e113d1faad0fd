"""Comparison of predictions with published figures, and the verdict on a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.reports.terminal import count, plural
from wse.studies.scenario.figures import FIGURES, nearest_of, published_text
from wse.studies.scenario.form import CONSISTENT, NEAR, RULED_OUT, Agreement
from wse.studies.scenario.result import AgainstResult, CombinationResult, PublishedResult


def compare_with_published(combination: CombinationResult, published: Sequence[PublishedResult]) -> CombinationResult:
    """Compare the prediction for a combination of settings with the published figures.

    The result contains a comparison with each figure that applies to the combination's machine,
    element type and drafts. The combination's agreement is its worst agreement with any figure that
    may rule it out, or None if there are no such figures. A combination that cannot run at all is
    ruled out.

    Args:
        combination: A combination of settings with its prediction.
        published: All published figures of the scenario.

    Returns:
        The combination with its comparisons and its agreement.
    """
    if combination.prediction is None:
        return replace(combination, agreement=RULED_OUT)
    rows = [
        AgainstResult(
            published=index,
            predicted=predicted,
            error_pct=100 * (predicted / figure.value - 1),
            agreement=agreement_of(figure, predicted),
        )
        for index, figure in enumerate(published)
        if _applies(figure, combination) and (predicted := FIGURES[figure.figure].of(combination)) is not None
    ]
    decisive = [row for row in rows if published[row.published].decides]
    faults = tuple(_fault_text(published[row.published], row) for row in decisive if row.agreement == RULED_OUT)
    agreements = [row.agreement for row in decisive]
    agreement = next((word for word in (RULED_OUT, NEAR, CONSISTENT) if word in agreements), None)
    return replace(combination, against=tuple(rows) or None, agreement=agreement, ruled_out_by=faults or None)


def agreement_of(published: PublishedResult, predicted: float) -> Agreement:
    """Judge whether a prediction is consistent with a published figure, near it, or ruled out.

    The rule depends on the relation between the true value and the published one:

    - ``about``: consistent within the tolerance, otherwise ruled out.
    - ``at_least``, ``at_most``: consistent on the correct side of the bound, near if the prediction
      misses the bound by at most the tolerance, otherwise ruled out.

    Args:
        published: The published figure, with its relation and relative tolerance.
        predicted: The predicted value, in the unit of the figure.
    """
    error = predicted / published.value - 1
    if published.relation == "about":
        return CONSISTENT if abs(error) <= published.tolerance else RULED_OUT
    excess = -error if published.relation == "at_least" else error
    return CONSISTENT if excess <= 0 else NEAR if excess <= published.tolerance else RULED_OUT


def _fault_text(published: PublishedResult, row: AgainstResult) -> str:
    """Describe how a prediction contradicts a published figure, with both values."""
    figure = FIGURES[published.figure]
    return f"{figure.title}: {figure.text(row.predicted)}, published {published_text(published)}"


def _applies(published: PublishedResult, combination: CombinationResult) -> bool:
    """Return whether a published figure applies to a combination of settings.

    The figure may name machines, element types and drafts to which it is limited. If it names no
    machines, for example, it applies to all machines.
    """
    pairs = (
        (published.machines, combination.machine),
        (published.dtypes, combination.dtype),
        (published.drafts, combination.drafts),
    )
    return all(names is None or name in names for names, name in pairs)


def verdict_of(combinations: Sequence[CombinationResult], published: Sequence[PublishedResult]) -> tuple[str, ...]:
    """Summarise the verdict on a scenario in one or two sentences.

    The first sentence counts the combinations of settings that agree with the published figures.
    The second sentence names the combination whose prediction is nearest to the first figure that
    may rule out combinations. If there are no such figures, the sentences count the combinations
    that can run and name the fastest one.

    Args:
        combinations: All combinations of the scenario, compared with the published figures.
        published: All published figures of the scenario.
    """
    possible = [combination for combination in combinations if combination.prediction is not None]
    impossible_count = len(combinations) - len(possible)
    compared_count = sum(combination.agreement is not None for combination in combinations)
    first_index = next((index for index, figure in enumerate(published) if figure.decides), None)
    if first_index is None:
        fastest_combination = max(possible, key=lambda combination: combination.speed)
        fastest_text = (
            f"Fastest for a user is {fastest_combination.settings}: {count(fastest_combination.speed)} tokens/s."
        )
        return f"{len(possible):,} of {plural(len(combinations), 'combination')} are possible.", fastest_text
    counts = {
        word: sum(combination.agreement == word for combination in combinations)
        for word in (CONSISTENT, NEAR, RULED_OUT)
    }
    counts_text = (
        f"{counts[CONSISTENT]:,} of {plural(compared_count, 'combination')} agree with what is published, "
        f"{counts[NEAR]:,} more within the tolerance; "
        f"{counts[RULED_OUT]:,} are ruled out ({impossible_count:,} impossible)."
    )
    nearest_combination = nearest_of(combinations, first_index)
    if nearest_combination is None:
        return (counts_text,)
    figure, (combination, row) = published[first_index], nearest_combination
    predicted = FIGURES[figure.figure].text(row.predicted)
    comparison = f"{predicted} predicted against {published_text(figure)} ({row.error_pct:+.0f} %)"
    return counts_text, f"Nearest is {combination.settings}: {comparison}."
