"""Intervals of figures: quantiles of samples, as results and as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import numpy as np

from wse.arrays import F64
from wse.reports.result import Doc, Result

CONFIDENCE: Final = 0.9
SAMPLED_ON_GPUS: Final = "prediction error, power, and prices that were not given"
SAMPLED_ON_WAFERS: Final = "prediction error, timing constants, power, and prices that were not given"
"""Inputs that have another value in each sample."""


class RangeResult(Result):
    """An estimated quantity, such as tokens/s, with its 90 % interval.

    The interval contains 90 % of the samples. Each sample has different values of the uncertain
    inputs.
    """

    value: Annotated[float, Doc("the figure with the stated constants")]
    low: Annotated[float, Doc("lower end of the 90 % interval")]
    high: Annotated[float, Doc("upper end of the 90 % interval")]
    samples: Annotated[int, Doc("number of samples of the model error and, on wafers, of the uncertain constants")]

    def reciprocal(self) -> RangeResult:
        """Return the range of the reciprocal (1 / value), such as tokens/s for a time per token."""
        return RangeResult(value=1 / self.value, low=1 / self.high, high=1 / self.low, samples=self.samples)


def range_of(value: float, sampled: F64) -> RangeResult:
    """Return an estimated quantity with the interval that contains 90 % of its samples.

    The interval is widened if necessary so that it includes the estimate itself. All samples can be
    on one side of the estimate if the stated value of a constant is at an end of its range.

    Args:
        value: Estimate of the quantity with the stated constants.
        sampled: float64 ``[samples]``, the quantity in each sample of the uncertain constants.
    """
    low, high = np.quantile(sampled, (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)).tolist()
    return RangeResult(value=value, low=min(low, value), high=max(high, value), samples=len(sampled))


def interval_text(interval: RangeResult | None, text: Callable[[float], str]) -> str:
    """Format an interval, such as ``(90 %: 560 to 790 µs)``; empty if it has no width.

    A unit that both ends share is printed once.

    Args:
        interval: The figure with its interval; None if unknown.
        text: Function that formats the figure.
    """
    if interval is None or interval.low == interval.high:
        return ""
    low, high = text(interval.low), text(interval.high)
    low_number, _, low_unit = low.partition(" ")
    low = low_number if low_unit and high.endswith(f" {low_unit}") else low
    return f"({percent_text(CONFIDENCE)}: {low} to {high})"


def with_interval(value: str, unit: str, interval: RangeResult | None, text: Callable[[float], str]) -> str:
    """Return a figure with its unit and interval, such as ``950 tokens/s (90 %: 700 to 1,100)``.

    Args:
        value: The formatted figure.
        unit: Its unit, with a space before it, or an empty string.
        interval: Its interval; None if unknown.
        text: Function that formats the ends of the interval.
    """
    return f"{value}{unit} {interval_text(interval, text)}".rstrip()


def sampled_text(ranges: Mapping[str, RangeResult] | None, *, on_gpus: bool = False) -> str:
    """Return a note that explains the intervals of an output, such as ``90 %: interval over 256 samples ...``.

    Args:
        ranges: The intervals, all of which are computed from the same number of samples. None or
            empty if there are none; the note is then empty.
        on_gpus: Whether the machine has GPUs instead of wafers.
    """
    if not ranges:
        return ""
    samples = next(iter(ranges.values())).samples
    sampled = SAMPLED_ON_GPUS if on_gpus else SAMPLED_ON_WAFERS
    return f"{percent_text(CONFIDENCE)}: interval over {samples:,} samples of {sampled}"


def percent_text(fraction: float) -> str:
    """Return a fraction as a whole percentage, such as ``90 %``.

    A fraction that is not exactly 0 or 1 is never shown as 0 % or 100 %.
    """
    if 0 < fraction < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 < fraction < 1 else f"{100 * fraction:.0f} %"


def share_above(first: F64, second: F64) -> float:
    """Return the fraction of samples in which the first machine's figure exceeds the second's.

    Samples with the same figure count half.

    Args:
        first: float64 ``[samples]``, figure of the first machine.
        second: float64 ``[samples]``, figure of the second machine for the same samples.
    """
    return float(np.mean(first > second) + np.mean(first == second) / 2)
