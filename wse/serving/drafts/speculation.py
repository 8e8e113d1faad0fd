"""Speculative decoding: what drafting tokens ahead and checking them in one pass of the model gains.

A draft proposes some tokens; one pass of the model accepts those up to the first that it would not have chosen, and
gives one token of its own. Source: Leviathan, Kalman, Matias, Fast inference from transformers via speculative
decoding, ICML 2023, arXiv 2211.17192.

The number of tokens that a pass yields depends on the length of its draft. It is measured, or typical. Beyond the last
measured length the number stays constant, because a longer draft is never accepted less. Between two measured lengths
it is interpolated linearly, which is never above a curve of decreasing gains.
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
from typing import Final, Literal

from wse.errors import BadInput
from wse.hardware.number import Grade, weakest


def speed_up(yielded_tokens: float, draft_tokens: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Return how many times faster tokens come with drafts than one by one: E / (n c + v).

    In the paper (arXiv 2211.17192, theorem 3.8) v is 1, because a pass on a GPU waits for weights for any number
    of tokens. Where weights are in SRAM it is more.

    Args:
        yielded_tokens: E, tokens that a pass yields on average.
        draft_tokens: n, draft tokens of a pass.
        draft_cost: c, time of drafting one token over the time of a plain pass.
        verify_cost: v, time of the pass that verifies n + 1 tokens over the time of a plain pass.

    Raises:
        BadInput: a cost is below 0 or no number, or both are 0.
    """
    time = draft_tokens * draft_cost + verify_cost
    if not (draft_cost >= 0 and verify_cost >= 0 and 0 < time < math.inf):
        message = (
            f"draft cost {draft_cost}, verify cost {verify_cost}: give times over that of a plain pass, of at least 0, "
            "and not both 0"
        )
        raise BadInput(message)
    return yielded_tokens / time


def best_draft(
    curve: Acceptance, speed_up_of: Callable[[int], float], *, has_one_peak: bool = True
) -> tuple[int, float]:
    """Return the draft length with the largest speed-up, and that speed-up; (0, 1.0) where no length gains.

    Lengths are tried up to the longest that the curve was measured at.

    Args:
        curve: Tokens per pass by draft length.
        speed_up_of: Returns how many times faster tokens come with drafts of a length.
        has_one_peak: Whether the speed-up only falls after its first peak, so that the search may stop there. Further
            draft tokens yield less and less, so this holds if none costs less than the one before.
    """
    best, length = 1.0, 0
    for n in range(1, max(curve.draft_tokens) + 1):
        gain = speed_up_of(n)
        if has_one_peak and gain <= best and length:
            break
        if gain > best:
            best, length = gain, n
    return length, best


TYPICAL: Final = "typical"
"""Name of the geometric mean of the measured acceptances."""

MISMATCH_GRADE: Final[Grade] = "I"
"""Grade of an acceptance that is applied to another kind of draft, or another model, than it was measured with."""

_BUNDLED: Final = Path(__file__).parents[2] / "data" / "acceptance.toml"


DraftKind = Literal["head", "model", "any"]
"""Kinds of drafts: a draft head of the model, or a separate draft model; ``any`` where the kind is not stated."""

HEAD_KIND: Final[DraftKind] = "head"
MODEL_KIND: Final[DraftKind] = "model"
ANY_KIND: Final[DraftKind] = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Tokens per verification pass by number of draft tokens, and what they were measured with.

    Attributes:
        model: The model that verified the draft tokens, or a name such as ``typical``.
        kind: The kind of draft that proposed them.
        draft: The name of the draft: a type of head such as ``MTP``, or a draft model.
        size_ratio: Parameters of a draft model over those of the model; None for other kinds.
        draft_tokens: Draft tokens per pass, in rising order.
        tokens_per_pass: Tokens that a pass yields for each of ``draft_tokens``, its own token included.
        grade: How well the numbers are known.
        source: Where the numbers are from.
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
        """The kind of draft in words, such as ``a draft head (MTP) of DeepSeek-R1``."""
        if self.kind == ANY_KIND:
            return "any draft, as given"
        if self.model == TYPICAL:
            return f"{'draft heads' if self.kind == HEAD_KIND else 'draft models'} ({self.draft}) of several models"
        if self.kind == HEAD_KIND:
            return f"a draft head ({self.draft}) of {self.model}"
        size = "" if self.size_ratio is None else f", {self.size_ratio:.3g} times the size"
        return f"a draft model ({self.draft}{size}) of {self.model}"

    def mismatch(self, kind: DraftKind, model: str) -> str | None:
        """Return how a draft differs from the one that was measured; None where it does not.

        Args:
            kind: The kind of the draft that the acceptance is applied to.
            model: The model that verifies its draft tokens.
        """
        if self.kind == ANY_KIND:
            return None
        differences = []
        if kind != self.kind:
            differences.append({HEAD_KIND: "a draft head", MODEL_KIND: "a draft model"}[kind])
        if self.model != TYPICAL and not _plain(model).startswith(_plain(self.model)):
            differences.append(f"the model {model}")
        if not differences:
            return None
        return f"measured with {self.measured_with}, applied to {' and '.join(differences)}: graded {MISMATCH_GRADE}"

    def grade_for(self, kind: DraftKind, model: str) -> Grade:
        """Return the grade of the acceptance for a draft: no better than an estimate where the draft differs."""
        return self.grade if self.mismatch(kind, model) is None else weakest((self.grade, MISMATCH_GRADE))

    def at(self, draft_tokens: int) -> float:
        """Return the tokens per pass with drafts of a length; 1 without a draft.

        Raises:
            BadInput: the length is below 0.
        """
        if draft_tokens < 0:
            message = f"draft of {draft_tokens} tokens: give a number of at least 0"
            raise BadInput(message)
        return _on_line((0, *self.draft_tokens), (1.0, *self.tokens_per_pass), draft_tokens)


@cache
def measured_curves() -> tuple[Acceptance, ...]:
    """Return the bundled curves."""
    rows = tomllib.loads(_BUNDLED.read_text(encoding="utf-8"))["rows"]
    sizes = ("draft_tokens", "tokens_per_pass")
    return tuple(Acceptance(**(row | {key: tuple(row[key]) for key in sizes})) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceShares:
    """The frequencies with which each choice of a draft is the model's token, the most likely choice first.

    ``kind``, ``draft`` and ``size_ratio`` are those of `Acceptance`.
    """

    kind: DraftKind
    draft: str
    size_ratio: float | None = None
    shares: tuple[float, ...]
    grade: Grade
    source: str


@cache
def choice_shares() -> ChoiceShares:
    """Return the bundled shares of choices."""
    table = tomllib.loads(_BUNDLED.read_text(encoding="utf-8"))["choices"]
    return ChoiceShares(**(table | {"shares": tuple(table["shares"])}))


def acceptance_by_position(acceptances: Sequence[float], model: str, grade: Grade, source: str) -> Acceptance:
    """Return the curve of a draft whose token at each position is accepted so often, where those before it are.

    1 + a1 + a1 a2 + ..., after Leviathan et al., arXiv 2211.17192, whose acceptance is one for all positions.

    >>> acceptance_by_position((0.8, 0.5), "any", "U", "").tokens_per_pass
    (1.8, 2.2)
    """
    products = itertools.accumulate(acceptances, operator.mul)
    return Acceptance(
        model=model,
        kind=ANY_KIND,
        draft="any",
        draft_tokens=tuple(range(1, len(acceptances) + 1)),
        tokens_per_pass=tuple(itertools.accumulate(products, initial=1.0))[1:],
        grade=grade,
        source=source,
    )


def typical(curves: Sequence[Acceptance]) -> Acceptance:
    """Return the geometric mean of ``curves`` at each length that one of them was measured at.

    Tokens per pass divide times, and of factors the geometric mean is the one that treats a gain and its inverse alike
    (Fleming and Wallace, CACM 29(3), 1986). It is a guess for a model of which nothing was measured, so its grade is
    that of an estimate.
    """
    lengths = tuple(sorted({length for curve in curves for length in curve.draft_tokens}))
    means = tuple(math.exp(math.fsum(math.log(curve.at(n)) for curve in curves) / len(curves)) for n in lengths)
    named = ", ".join(f"{curve.model} {curve.draft}" for curve in curves)
    kinds = {curve.kind for curve in curves}
    return Acceptance(
        model=TYPICAL,
        kind=kinds.pop() if len(kinds) == 1 else ANY_KIND,
        draft=", ".join(sorted({curve.draft for curve in curves})),
        draft_tokens=lengths,
        tokens_per_pass=means,
        grade=weakest(("I", *(curve.grade for curve in curves))),
        source=f"geometric mean of {named}",
    )


def acceptance_of(model: str) -> Acceptance:
    """Return the curve measured on ``model`` if there is one, else the typical one.

    Names are compared without case, spaces and signs.
    """
    curves = [curve for curve in measured_curves() if _plain(curve.model) == _plain(model)]
    return curves[0] if curves else typical(measured_curves())


def _on_line(lengths: tuple[int, ...], values: tuple[float, ...], length: int) -> float:
    """Return the value at ``length`` of the line through (lengths, values), and the last value beyond them."""
    for (low, before), (high, after) in zip(
        zip(lengths, values, strict=True), zip(lengths[1:], values[1:], strict=True), strict=False
    ):
        if length <= high:
            return before + (after - before) * (length - low) / (high - low)
    return values[-1]


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
