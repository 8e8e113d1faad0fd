"""Figures of a combination that can be compared with published figures, keyed by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wse.reports.terminal import count, printable
from wse.studies.scenario.form import CONSISTENT, WORDS

if TYPE_CHECKING:
    from wse.studies.scenario.result import AgainstResult, CombinationResult, PublishedResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A predicted number, such as a cost per token, that can be compared with published numbers.

    Attributes:
        name: Name of the number in scenario files. It is also the name of the result field that
            contains the number.
        title: Human-readable name, for tables.
        unit: Unit; empty for ratios.
        part: Name of the field of `CombinationResult` that contains the result field:
            ``prediction`` or ``tiers``.
    """

    name: str
    title: str
    unit: str
    part: str

    def of(self, combination: CombinationResult) -> float | None:
        """Return the predicted value for a combination of settings, or None if there is none."""
        value: Any = getattr(getattr(combination, self.part), self.name, None)
        return None if value is None else float(value)

    def text(self, value: float) -> str:
        """Format a value with the unit of this figure."""
        number = f"{value:.3g}" if value < 100 else count(value)
        return f"{number} {self.unit}" if self.unit else f"{number} times"


def _figures(part: str, *figures: tuple[str, str, str]) -> tuple[Figure, ...]:
    """Create descriptions of predicted numbers that can be compared with published ones.

    Args:
        part: Field of `CombinationResult` that contains the numbers: ``prediction`` or ``tiers``.
        figures: A tuple (name, title, unit) for each number.
    """
    return tuple(Figure(name=name, title=title, unit=unit, part=part) for name, title, unit in figures)


MACHINE: Final = _figures(
    "prediction",
    ("tokens_per_s_per_user", "a user", "tokens/s"),
    ("tokens_per_s", "all users", "tokens/s"),
    ("ttft_s", "first token", "s"),
    ("usd_per_million_tokens", "a million tokens at central prices", "USD"),
    ("joules_per_token", "energy per token", "J"),
    ("chips", "wafers or GPUs", "chips"),
)
TIERS: Final = _figures(
    "tiers",
    ("ordinary_tokens_per_s_per_user", "plain tier, a user", "tokens/s"),
    ("fast_tokens_per_s_per_user", "fast tier, a user", "tokens/s"),
    ("ordinary_usd_per_million_tokens", "plain tier, a million at central prices", "USD"),
    ("fast_usd_per_million_tokens", "fast tier, a million at central prices", "USD"),
    ("speed_up", "speed of the fast tier", ""),
    ("cost_ratio", "cost of a fast token", ""),
)
FIGURES: Final[Mapping[str, Figure]] = {figure.name: figure for figure in (*MACHINE, *TIERS)}


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

    If some combinations agree with all published figures, only these are considered.

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
    consistent_pairs = [pair for pair in pairs if pair[0].agreement == CONSISTENT]
    return min(consistent_pairs or pairs, key=lambda pair: abs(pair[1].error_pct), default=None)
