"""Speculative decoding: the speed-up from verifying several draft tokens in one pass of the model.

A draft proposes several tokens. One pass of the model accepts them up to the first token that the
model would not have chosen, and adds one token of its own. Source: Leviathan, Kalman, Matias, Fast
inference from transformers via speculative decoding, ICML 2023, arXiv 2211.17192.

The tokens per pass depend on the length of the draft. They are measured, or typical of several
measurements. Between two measured lengths they are interpolated linearly, which is never above a
curve with decreasing gains. Beyond the last measured length they stay constant, because a longer
draft never yields less.
"""

from __future__ import annotations

import itertools
import math
import operator
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from wse.errors import BadInput
from wse.hardware.number import Grade, weakest
from wse.known_names import letters_and_digits


def best_draft(
    curve: Acceptance, speed_up_of: Callable[[int], float], *, has_one_peak: bool = True
) -> tuple[int, float]:
    """Return the number of draft tokens with the largest speed-up, and that speed-up.

    All numbers up to the largest measured one are candidates. If none is faster than plain
    decoding, the result is (0, 1.0).

    Args:
        curve: Tokens per verification pass, for each number of draft tokens.
        speed_up_of: Function that maps a number of draft tokens to the speed-up over plain
            decoding.
        has_one_peak: Whether the search may stop as soon as the speed-up falls. This is correct if
            no draft token costs less than the one before, because each one adds fewer tokens than
            the one before.
    """
    best_gain, length = 1.0, 0
    for n in range(1, max(curve.draft_tokens) + 1):
        gain = speed_up_of(n)
        if has_one_peak and gain <= best_gain and length:
            break
        if gain > best_gain:
            best_gain, length = gain, n
    return length, best_gain


TYPICAL: Final = "typical"
"""Name of the geometric mean of the measured acceptances."""

MISMATCH_GRADE: Final[Grade] = "I"
"""Grade of an acceptance that is applied to a different kind of draft or model than measured."""

_BUNDLED: Final = Path(__file__).parents[2] / "data" / "acceptance.toml"


DraftKind = Literal["head", "model", "any"]
"""Kinds of drafts: a draft head of the model, a separate draft model, or ``any`` if unknown."""

HEAD_KIND: Final[DraftKind] = "head"
MODEL_KIND: Final[DraftKind] = "model"
ANY_KIND: Final[DraftKind] = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A measurement of how many tokens a verification pass yields, for several draft lengths.

    A verification pass checks draft tokens and adds one token from the model itself.

    Attributes:
        model: Model that verified the draft tokens, or a name such as ``typical``.
        kind: Kind of source that proposed them: a draft head or a separate draft model.
        draft: Name of the source: a type of head such as ``MTP``, or a draft model.
        size_ratio: Ratio of the draft model's parameter count to the model's; None for other kinds.
        draft_tokens: Draft tokens per pass, in ascending order.
        tokens_per_pass: Tokens that a pass yields for each of ``draft_tokens``, including the
            model's own token.
        grade: Evidence grade, a letter that indicates how reliable the numbers are.
        source: Origin of the numbers.
    """

    model: str
    kind: DraftKind
    draft: str
    size_ratio: float | None = None
    draft_tokens: tuple[int, ...]
    tokens_per_pass: tuple[float, ...]
    grade: Grade
    source: str

    @property
    def measured_with(self) -> str:
        """Description of the measured draft, such as ``a draft head (MTP) of DeepSeek-R1``."""
        if self.kind == ANY_KIND:
            return "any draft, as given"
        if self.model == TYPICAL:
            return f"{'draft heads' if self.kind == HEAD_KIND else 'draft models'} ({self.draft}) of several models"
        if self.kind == HEAD_KIND:
            return f"a draft head ({self.draft}) of {self.model}"
        size = "" if self.size_ratio is None else f", {self.size_ratio:.3g} times the size"
        return f"a draft model ({self.draft}{size}) of {self.model}"

    def mismatch(self, kind: DraftKind, model: str) -> str | None:
        """Return a warning if the measurement is used for a draft or model that was not measured.

        The result is None if the kind of draft and the model are those of the measurement.

        Args:
            kind: Kind of draft for which the measurement is used.
            model: Model that verifies the draft tokens.
        """
        if self.kind == ANY_KIND:
            return None
        differences = []
        if kind != self.kind:
            differences.append({HEAD_KIND: "a draft head", MODEL_KIND: "a draft model"}[kind])
        if self.model != TYPICAL and not letters_and_digits(model).startswith(letters_and_digits(self.model)):
            differences.append(f"the model {model}")
        if not differences:
            return None
        use = f"applied to {' and '.join(differences)}, so the evidence grade is {MISMATCH_GRADE}"
        return f"measured with {self.measured_with}, {use}"

    def grade_for(self, kind: DraftKind, model: str) -> Grade:
        """Return how reliable the measurement is if it is used for a given draft and model.

        The result is an evidence grade. If the kind of draft or the model differs from the measured
        one, the grade is at best I (inferred).

        Args:
            kind: Kind of the draft.
            model: Model that verifies the draft tokens.
        """
        return self.grade if self.mismatch(kind, model) is None else weakest((self.grade, MISMATCH_GRADE))

    def at(self, draft_tokens: int) -> float:
        """Return how many tokens a verification pass yields for a number of draft tokens.

        The result is 1 without draft tokens and is interpolated linearly between measured numbers.
        Beyond the largest measured number, it is the value of that number.

        Raises:
            BadInput: The number is negative.
        """
        if draft_tokens < 0:
            raise BadInput(f"draft of {draft_tokens} tokens: give a number of at least 0")
        values = (1.0, *self.tokens_per_pass)
        measurements = zip((0, *self.draft_tokens), values, strict=True)
        for (low, low_value), (high, high_value) in itertools.pairwise(measurements):
            if draft_tokens <= high:
                return low_value + (high_value - low_value) * (draft_tokens - low) / (high - low)
        return values[-1]


@cache
def measured_curves() -> tuple[Acceptance, ...]:
    """Return the bundled measurements of how many tokens a verification pass yields."""
    rows = tomllib.loads(_BUNDLED.read_text(encoding="utf-8"))["rows"]
    sizes = ("draft_tokens", "tokens_per_pass")
    return tuple(Acceptance(**(row | {key: tuple(row[key]) for key in sizes})) for row in rows)


class ChoiceFrequencies(NamedTuple):
    """Measurement of how often the model agrees with each of a draft's choices for the next token.

    The first choice is the token that the draft considers most likely, the second choice the next
    most likely, and so on.

    Attributes:
        frequencies: Frequency with which each choice is the model's token, from 0 to 1.
        grade: Evidence grade, a letter that indicates how reliable the numbers are.
    """

    frequencies: tuple[float, ...]
    grade: Grade


@cache
def choice_frequencies() -> ChoiceFrequencies:
    """Return the bundled measurement of how often the model agrees with each choice of a draft."""
    table = tomllib.loads(_BUNDLED.read_text(encoding="utf-8"))["choices"]
    return ChoiceFrequencies(tuple(table["frequencies"]), table["grade"])


def acceptance_by_position(acceptances: Sequence[float], model: str) -> Acceptance:
    """Return how many tokens a verification pass yields, given a user's acceptance probabilities.

    With probabilities a1, a2, ..., a pass with n draft tokens yields the sum of the first n + 1
    terms of 1 + a1 + a1 a2 + ... This follows Leviathan et al., arXiv 2211.17192, where all
    probabilities are equal.

    Args:
        acceptances: For each position, the probability that its draft token is accepted, given that
            all previous draft tokens were accepted.
        model: Name of the model, for reports.

    >>> acceptance_by_position((0.8, 0.5), "any").tokens_per_pass
    (1.8, 2.2)
    """
    products = itertools.accumulate(acceptances, operator.mul)
    return Acceptance(
        model=model,
        kind=ANY_KIND,
        draft="any",
        draft_tokens=tuple(range(1, len(acceptances) + 1)),
        tokens_per_pass=tuple(itertools.accumulate(products, initial=1.0))[1:],
        grade="U",
        source="given",
    )


def typical() -> Acceptance:
    """Return the geometric mean of the bundled measurements of tokens per verification pass.

    The result has a value for each draft length that occurs in any measurement. Tokens per pass are
    speed factors, for which only the geometric mean treats a gain and its inverse equally (Fleming
    and Wallace, CACM 29(3), 1986). The mean is a guess for models without measurements, so its
    evidence grade is at best I (inferred).
    """
    curves = measured_curves()
    lengths = tuple(sorted({length for curve in curves for length in curve.draft_tokens}))
    means = tuple(math.exp(math.fsum(math.log(curve.at(n)) for curve in curves) / len(curves)) for n in lengths)
    curve_names = ", ".join(f"{curve.model} {curve.draft}" for curve in curves)
    kinds = {curve.kind for curve in curves}
    return Acceptance(
        model=TYPICAL,
        kind=kinds.pop() if len(kinds) == 1 else ANY_KIND,
        draft=", ".join(sorted({curve.draft for curve in curves})),
        draft_tokens=lengths,
        tokens_per_pass=means,
        grade=weakest(("I", *(curve.grade for curve in curves))),
        source=f"geometric mean of {curve_names}",
    )


def acceptance_of(model: str) -> Acceptance:
    """Return the tokens per verification pass measured on a model, or else typical values.

    Case, spaces and punctuation in the name are ignored.
    """
    curves = [curve for curve in measured_curves() if letters_and_digits(curve.model) == letters_and_digits(model)]
    return curves[0] if curves else typical()
