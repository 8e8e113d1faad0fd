"""Agreement, the result of ``wse validate --against wavelet``: the fast model beside the cycle-by-cycle reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class AgreementRow(Result):
    """One configuration, as both readers see it."""

    pattern: Annotated[str, Doc("The communication pattern, or whole layers.")]
    wafer: Annotated[str, Doc("The wafer.")]
    software: Annotated[str, Doc("The software profile.")]
    rows: Annotated[int, Doc("Rows of PEs.")]
    cols: Annotated[int, Doc("Columns of PEs.")]
    words: Annotated[int, Doc("Words of a message; 0 for whole layers.", "words")]
    detail: Annotated[str, Doc("What else the configuration has.")]
    fast_cycles: Annotated[float, Doc("Cycles by the fast model.", "cycles")]
    wavelet_cycles: Annotated[int, Doc("Cycles by the reference.", "cycles")]
    contention_cycles: Annotated[
        float, Doc("Cycles by the fast model in which words wait for other messages' on a link or ramp.", "cycles")
    ]
    streams: Annotated[int, Doc("The most messages on one link or ramp in one window.")]
    loads_equal: Annotated[bool, Doc("Whether both count the same words on every link.")]

    @property
    def error_pct(self) -> float:
        """100 (fast - wavelet) / wavelet cycles."""
        return 100 * (self.fast_cycles - self.wavelet_cycles) / max(1, self.wavelet_cycles)

    def to_dict(self) -> dict[str, Any]:
        """The fields, and ``error_pct``."""
        return super().to_dict() | {"error_pct": self.error_pct}


@dataclass(frozen=True, kw_only=True)
class AgreementErrors(Result):
    """Errors of the fast model over some configurations."""

    rows: Annotated[int, Doc("Configurations.")]
    judged: Annotated[int, Doc("Configurations that are long enough for a relative error.")]
    loads_equal: Annotated[int, Doc("Configurations with the same words on every link.")]
    median_abs_error_pct: Annotated[float | None, Doc("Median of the absolute errors.", "%", or_null=True)]
    worst_abs_error_pct: Annotated[float | None, Doc("Largest absolute error.", "%", or_null=True)]


@dataclass(frozen=True, kw_only=True)
class Pattern(Result):
    """A communication pattern."""

    pattern: Annotated[str, Doc("The pattern, or whole layers.")]


@dataclass(frozen=True, kw_only=True)
class PatternErrors(AgreementErrors, Pattern):
    """Errors over the configurations of one pattern."""


@dataclass(frozen=True, kw_only=True)
class AgreementSummary(AgreementErrors):
    """Errors over all configurations, and by pattern."""

    by_pattern: Annotated[tuple[PatternErrors, ...], Doc("Errors by pattern.")]


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """The fast model beside the reference, configuration by configuration."""

    each: Annotated[int, Doc("Configurations of a pattern, a wafer and a software profile.")]
    seed: Annotated[int, Doc("Seed of the configurations.")]
    judged_above_cycles: Annotated[int, Doc("Cycles above which a relative error is judged.", "cycles")]
    rows: Annotated[tuple[AgreementRow, ...], Doc("Every configuration.")]
    summary: Annotated[AgreementSummary, Doc("Errors in short.")]
