"""Certainty of the verdict on a claim: its fraction of the samples, and what would change it.

A figure with *cases* is an array. Its first element is the figure with the stated constants, and
the others are its samples. All figures have the same samples of the same constants, so that the
rule of a claim can be applied to each case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from wse.arrays import F64, Bools
from wse.reports.intervals import percent_text
from wse.studies.estimate.ranges.constants import probabilities_of

Cases = F64
"""Figure with the stated constants, followed by its samples: float64 ``[1 + samples]``."""

Verdict = Literal["true", "false", "conditional", "undecided"]
"""Verdict on a claim. ``conditional`` means that the claim is true under a condition stated in the
answer."""
Verdicts = tuple[Verdict, ...]
"""Verdict with the stated constants, followed by the verdict for each sample."""

CLEAR: Final = 3.0
"""Standard errors above which a difference between two groups of samples is significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """Certainty of the verdict on a claim, which is a statement about fast inference.

    The claim is decided for each of many random samples of the uncertain constants. The larger the
    fraction of samples with the same verdict, the more certain the verdict is.

    Attributes:
        verdict: Most frequent verdict among the samples. If several are equally frequent, or if
            there are no samples, it is the verdict with the stated constants.
        samples: Number of samples; None if the constants were not sampled, but moved to the ends of
            their ranges.
        share: Fraction of the samples that give this verdict; None without samples.
        decisive: Constant whose value differs most between the samples that give this verdict and
            the other samples. None if all samples give this verdict, or if no constant differs
            clearly.
        text: Sentence for reports that states the verdict, its fraction of the samples and the
            decisive constant.
    """

    verdict: Verdict
    samples: int | None
    share: float | None
    decisive: str | None = None
    text: str


def by_rule(*, holds: Any, never: Any) -> Verdicts:
    """Return the verdict on a claim for each set of values of the uncertain constants.

    The first set (case) contains the stated values, and the other sets are random samples. In each
    case, the claim was tested under several conditions, such as for different models.

    Args:
        holds: bool or bool ``[cases]``, whether the claim is true under all conditions.
        never: bool or bool ``[cases]``, whether the claim is true under none of the conditions.

    Returns:
        The verdict in each case: "true" if ``holds``, "false" if ``never``, and otherwise
        "conditional".
    """
    verdicts = np.select([np.atleast_1d(holds), np.atleast_1d(never)], ["true", "false"], "conditional")
    return tuple(verdicts.tolist())


def certainty_of(verdicts: Verdicts, names: Collection[str]) -> Certainty:
    """Return how certain the verdict on a claim is, and a sentence that says so.

    Args:
        verdicts: The verdict with the stated constants, followed by the verdict for each sample of
            the constants.
        names: Names of the uncertain constants on which the verdicts depend.
    """
    stated_verdict, samples = verdicts[0], verdicts[1:]
    counts = Counter(samples)
    verdict = max(counts, key=lambda name: (counts[name], name == stated_verdict))
    share = counts[verdict] / len(samples)
    if share == 1:
        text = f"The verdict is {verdict} in all {len(samples)} samples of the uncertain constants"
        decisive = None
    else:
        other_texts = " and ".join(f"{name} in {count}" for name, count in counts.most_common() if name != verdict)
        text = (
            f"The verdict is {verdict} in {counts[verdict]} of {len(samples)} samples of the uncertain constants "
            f"({percent_text(share)}), and {other_texts}"
        )
        decisive, rank_difference = _decisive(np.array([name == verdict for name in samples]), names)
        if decisive is None:
            text += "; no single constant decides"
        else:
            direction = "higher" if rank_difference < 0 else "lower"
            text += f". Samples with another verdict mostly have a {direction} {decisive}"
    text += "." if stated_verdict == verdict else f". With the stated constants, the verdict is {stated_verdict}."
    return Certainty(verdict=verdict, samples=len(samples), share=share, decisive=decisive, text=text)


def certainty_at_ends(verdicts: Verdicts) -> Certainty:
    """Return how certain a verdict is that was computed only at the ends of the constants' ranges.

    Some verdicts depend on counts from a compiled model, such as words between wafers. They are
    not computed for random samples of the constants. Even if all three verdicts are equal, the
    verdict may differ for values between the ends.

    Args:
        verdicts: Three verdicts: with the stated constants, with all constants at the low ends of
            their ranges, and with all of them at the high ends.
    """
    stated_verdict, *end_verdicts = verdicts
    texts = [
        f"{verdict} with all uncertain constants at the {end} ends of their ranges"
        for verdict, end in zip(end_verdicts, ("low", "high"), strict=True)
    ]
    text = f"The verdict is {stated_verdict} with the stated constants, {' and '.join(texts)}."
    if set(end_verdicts) == {stated_verdict}:
        text = (
            f"The verdict is {stated_verdict} with the stated constants, with all uncertain constants at the low ends "
            "of their ranges, and with all of them at the high ends. It was not decided for samples."
        )
    return Certainty(verdict=stated_verdict, samples=None, share=None, text=text)


def _decisive(is_same: Bools, names: Collection[str]) -> tuple[str | None, float]:
    """Return the uncertain constant whose value differs most between two groups of samples.

    The ranks of the sampled values are compared, so that constants with different units and
    magnitudes can be compared.

    Args:
        is_same: bool ``[samples]``, whether a sample is in the first group. Neither group is empty.
        names: Names of the uncertain constants.

    Returns:
        The name of the constant, and its mean rank (0 to 1) in the first group minus its mean rank
        in the second. The name is None if no difference exceeds `CLEAR` standard errors.
    """
    ranks_by_name = {name: probabilities_of(name, len(is_same)) for name in sorted(names)}
    differences = {name: float(ranks[is_same].mean() - ranks[~is_same].mean()) for name, ranks in ranks_by_name.items()}
    standard_error = np.sqrt((1 / is_same.sum() + 1 / (~is_same).sum()) / 12)  # of ranks that are uniform
    clear_names = [name for name in differences if abs(differences[name]) > CLEAR * standard_error]
    if not clear_names:
        return None, 0.0
    name = max(clear_names, key=lambda name: abs(differences[name]))
    return name, differences[name]
