"""Results of ranges: an interval for each headline figure, and the contributions to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from wse.hardware.number import Grade
from wse.reports.number_text import hertz, percent, rate_and_latency, seconds
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ContributionResult(Result):
    """How one uncertain constant, or the model error, contributes to the ranges of TTFT and TPOT.

    TTFT is the time to first token, and TPOT is the time per output token.
    """

    name: Annotated[str, Doc("the constant as in `--set`, or `model error of decode` or `of prefill`")]
    value: Annotated[float | None, Doc("value of the constant; absent for a model error")] = None
    low: Annotated[float | None, Doc("low end of its range")] = None
    high: Annotated[float | None, Doc("high end of its range")] = None
    unit: Annotated[str | None, Doc("its unit")] = None
    grade: Annotated[Grade | None, Doc("its evidence grade")] = None
    reason: Annotated[str | None, Doc("reason for the range")] = None
    ttft_s_at_low: Annotated[float, Doc("TTFT at the low end; for a model error, at the 5 % quantile", "s")]
    ttft_s_at_high: Annotated[float, Doc("TTFT at the high end; for a model error, at the 95 % quantile", "s")]
    ttft_variance_share: Annotated[float, Doc("fraction of the variance of TTFT, as the sum of single variances")]
    tpot_s_at_low: Annotated[float | None, Doc("time per output token at the low end", "s")] = None
    tpot_s_at_high: Annotated[float | None, Doc("time per output token at the high end", "s")] = None
    tpot_variance_share: Annotated[float | None, Doc("fraction of the variance of the time per output token")] = None


class UncertaintyResult(Result):
    """Contributions of uncertain constants and model errors to the 90 % intervals of an estimate.

    The constant or model error that affects the times most comes first.
    """

    ttft_s: Annotated[float, Doc("time to first token with the stated constants", "s")]
    tpot_s: Annotated[float | None, Doc("time per output token with the stated constants", "s")] = None
    contributions: Annotated[tuple[ContributionResult, ...], Doc("constants with a range, and model errors")]

    def plot(self) -> Figure:
        """Draw a tornado chart: for each uncertain constant, a bar that shows its effect on TPOT.

        A bar connects the time per output token at the low end of the constant's range with the
        time at the high end. If no token is decoded, bars show the time to first token.
        """
        from wse.studies.estimate.ranges.plot import tornado

        return tornado(self)


def contributions_table(uncertainty: UncertaintyResult) -> Table:
    """Return a table that shows how each uncertain constant affects TPOT and TTFT.

    TPOT is the time per output token, and TTFT is the time to first token. A row shows the range of
    a constant, both times at the low and high end of the range, and the fraction of the variance of
    each time that is due to the constant. The errors of the models have rows as well.

    Args:
        uncertainty: Effects of all constants and model errors, with the largest effect first.
    """
    name = Column(key="name", title="constant", cell=lambda row: row.name.partition(".")[2] or row.name)
    columns = [name, Column(key="range", title="range", cell=_range_cell)]
    if uncertainty.tpot_s is not None:
        columns += [
            number("tpot_variance_share", "of TPOT", percent),
            number("tpot_s_at_low", "TPOT at low", seconds),
            number("tpot_s_at_high", "at high", seconds),
        ]
    columns += [
        number("ttft_variance_share", "of TTFT", percent, priority=1),
        number("ttft_s_at_low", "TTFT at low", seconds, priority=1),
        number("ttft_s_at_high", "at high", seconds, priority=1),
    ]
    return Table(
        columns=tuple(columns),
        rows=uncertainty.contributions,
        title="Uncertainty",
        note="one constant at a time at both ends of its range, model errors at 5 and 95 %; "
        "of TPOT, of TTFT: fraction of the variance of its logarithm",
    )


def _range_cell(row: ContributionResult) -> str:
    """Return the range of a constant around its value, such as ``48 to 142``."""
    if row.low is None or row.high is None:
        return ""
    return f"{with_unit(row.low, row.unit)} to {with_unit(row.high, row.unit)}"


def with_unit(value: float, unit: str | None) -> str:
    """Format a constant with its unit; cycles, words and ratios have none."""
    formatters: dict[str, Callable[[float], str]] = {"Hz": hertz, "s": seconds, "byte/s": rate_and_latency}
    return formatters.get(unit or "", "{:.4g}".format)(value)
