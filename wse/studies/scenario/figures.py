"""Figures of a combination that can be compared with published figures, keyed by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wse.reports.number_text import count
from wse.reports.terminal import printable
from wse.studies.scenario.form import CONSISTENT, WORDS

if TYPE_CHECKING:
    from wse.studies.scenario.result import AgainstResult, CombinationResult, PublishedResult


TIERS: Final = "tiers"
"""Part of a combination with the figures of both service tiers."""


class Figure(NamedTuple):
    """A predicted number, such as a cost per token, that can be compared with published numbers.

    Attributes:
        part: Name of the field of `CombinationResult` that contains the number: ``prediction`` or
            ``tiers``.
        name: Name of the number in this field and in scenario files.
        title: Human-readable name, for tables.
        unit: Unit; empty for ratios.
    """

    part: str
    name: str
    title: str
    unit: str

    def of(self, combination: CombinationResult) -> float | None:
        """Return the predicted value for a combination of settings, or None if there is none."""
        value: Any = getattr(getattr(combination, self.part), self.name, None)
        return None if value is None else float(value)

    def text(self, value: float) -> str:
        """Format a value with the unit of this figure."""
        number = f"{value:.3g}" if value < 100 else count(value)
        return f"{number} {self.unit}" if self.unit else f"{number} times"


FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure
    for figure in (
        Figure("prediction", "tokens_per_s_per_user", "a user", "tokens/s"),
        Figure("prediction", "tokens_per_s", "all users", "tokens/s"),
        Figure("prediction", "ttft_s", "remote TTFT", "s"),
        Figure("prediction", "usd_per_million_tokens", "a million tokens at central prices", "USD"),
        Figure("prediction", "joules_per_token", "energy per token", "J"),
        Figure("prediction", "chips", "wafers or GPUs", "chips"),
        Figure(TIERS, "plain_tokens_per_s_per_user", "plain tier, a user", "tokens/s"),
        Figure(TIERS, "fast_tokens_per_s_per_user", "fast tier, a user", "tokens/s"),
        Figure(TIERS, "plain_usd_per_million_tokens", "plain tier, a million at central prices", "USD"),
        Figure(TIERS, "fast_usd_per_million_tokens", "fast tier, a million at central prices", "USD"),
        Figure(TIERS, "speed_up", "speed of the fast tier", ""),
        Figure(TIERS, "cost_ratio", "cost of a fast token", ""),
    )
}


def published_text(published: PublishedResult) -> str:
    """Format a published figure, such as ``at least 1,000 tokens/s``."""
    return f"{WORDS[published.relation]}{FIGURES[published.figure].text(published.value)}"


def published_texts(published: PublishedResult) -> tuple[str, str]:
    """Return two strings: the title and value of a published figure, and its publisher and date."""
    date = "" if published.date is None else f", {printable(published.date)}"
    return f"{FIGURES[published.figure].title} {published_text(published)}", f"{published.by}{date}"


def nearest_of(
    combinations: Sequence[CombinationResult], published: int
) -> tuple[CombinationResult, AgainstResult] | None:
    """Find the combination of settings whose prediction is nearest to a published figure.

    Combinations that agree with all published figures are preferred, then those that agree with
    this figure.

    Args:
        combinations: The combinations of settings, with their comparisons.
        published: Index of the published figure.

    Returns:
        The combination and its comparison, or None if no prediction was compared with the figure.
    """
    pairs = [
        (combination, row)
        for combination in combinations
        for row in combination.against or ()
        if row.published == published
    ]

    def rank(pair: tuple[CombinationResult, AgainstResult]) -> tuple[bool, bool, float]:
        """Return the sort key of a combination and its comparison; the preferred one is smallest."""
        combination, comparison = pair
        return combination.agreement != CONSISTENT, comparison.agreement != CONSISTENT, abs(comparison.error_pct)

    return min(pairs, key=rank, default=None)
