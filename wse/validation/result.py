"""Validation, the result of ``wse validate``: every row with its prediction, and how far off predictions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from wse.report.result import Doc, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class SramFit(Result):
    """Whether a model fits the PEs that one of its layers was timed on."""

    fits: Annotated[bool, Doc("Whether all layers of the model fit the SRAM of the PEs.")]


@dataclass(frozen=True, kw_only=True)
class ValidationRow(Result):
    """One published measurement beside its prediction, or the reason why there is none."""

    file: Annotated[str, Doc("The file as it was named.")]
    line: Annotated[int, Doc("The line that the row begins on, from 1.")]
    input: Annotated[Mapping[str, str], Doc("Every column of the row, as given.")]
    source: Annotated[str, Doc("Where the value was published.")]
    kernel: Annotated[str, Doc("The kernel, or a model, or a system and its phase.")]
    measured: Annotated[
        float | None, Doc("The published value, in the row's own metric; null for a range.", or_null=True)
    ]
    predicted: Annotated[float | None, Doc("The predicted value, in the same metric.", or_null=True)]
    error_pct: Annotated[float | None, Doc("100 (predicted - measured) / measured.", "%", or_null=True)]
    predicted_plain: Annotated[
        float | None, Doc("The prediction without speculative decoding, where the other is with it.")
    ] = None
    error_plain_pct: Annotated[float | None, Doc("Error of the prediction without speculative decoding.", "%")] = None
    reason: Annotated[str | None, Doc("Why the row is not predicted.", or_null=True)]
    method: Annotated[str | None, Doc("Which model predicts the row.", or_null=True)]
    software: Annotated[str | None, Doc("Software profile whose costs are in the prediction.", or_null=True)]
    sram: Annotated[SramFit | None, Doc("Fit of the model, where the row is of one.")] = None


@dataclass(frozen=True, kw_only=True)
class Errors(Result):
    """Absolute errors of some rows."""

    rows: Annotated[int, Doc("Rows in all.")]
    predicted: Annotated[int, Doc("Rows that are predicted.")]
    median_abs_error_pct: Annotated[float | None, Doc("Median of the absolute errors.", "%", or_null=True)]
    worst_abs_error_pct: Annotated[float | None, Doc("Largest absolute error.", "%", or_null=True)]


@dataclass(frozen=True, kw_only=True)
class Method(Result):
    """A method of prediction."""

    method: Annotated[str, Doc("Which model predicts the rows.")]


@dataclass(frozen=True, kw_only=True)
class MethodErrors(Errors, Method):
    """Errors of the rows that one method predicts."""


@dataclass(frozen=True, kw_only=True)
class SourceAndKernel(Result):
    """A kernel in one source."""

    source: Annotated[str, Doc("Where the values were published.")]
    kernel: Annotated[str, Doc("What ran.")]


@dataclass(frozen=True, kw_only=True)
class GroupErrors(Errors, SourceAndKernel):
    """Errors of the rows of one source and kernel."""


@dataclass(frozen=True, kw_only=True)
class ReasonCount(Result):
    """A reason why rows are not predicted."""

    reason: Annotated[str, Doc("The reason.")]
    rows: Annotated[int, Doc("Rows that are not predicted for it.")]


@dataclass(frozen=True, kw_only=True)
class ValidationSummary(Errors):
    """Errors over all rows but those that state a formula or a constant, with errors by method, source and kernel."""

    by_method: Annotated[tuple[MethodErrors, ...], Doc("Errors by method.")]
    by_source_and_kernel: Annotated[tuple[GroupErrors, ...], Doc("Errors by source and kernel.")]
    reasons: Annotated[tuple[ReasonCount, ...], Doc("Reasons why rows are not predicted, the most frequent first.")]


@dataclass(frozen=True, kw_only=True)
class WafersNeeded(Result):
    """The fewest wafers that hold a model beside the code of one software profile."""

    software: Annotated[str, Doc("The software profile.")]
    code_bytes_per_pe: Annotated[int, Doc("Code on every PE.", "bytes")]
    wafers: Annotated[int, Doc("The fewest wafers.")]


@dataclass(frozen=True, kw_only=True)
class ModelCapacity(Result):
    """The wafers that a source states for a model, beside those that it needs by software."""

    model: Annotated[str, Doc("The bundled configuration.")]
    wafer: Annotated[str, Doc("The wafer.")]
    dtype: Annotated[str | None, Doc("How weights are held.", or_null=True)]
    wafers: Annotated[int | None, Doc("Wafers that the source states.", or_null=True)]
    needed: Annotated[tuple[WafersNeeded, ...], Doc("The fewest wafers by software profile.")]


@dataclass(frozen=True, kw_only=True)
class Validation(Result):
    """Every row with its prediction, errors in short, and the wafers that services state beside those they need."""

    rows: Annotated[tuple[ValidationRow, ...], Doc("Every row, in the order of the files.")]
    summary: Annotated[ValidationSummary, Doc("Counts and errors.")]
    capacity: Annotated[
        tuple[ModelCapacity, ...] | None, Doc("Wafers by software, of models for which a row states wafers.")
    ] = None

    def plot(self) -> Figure:
        """Predicted over measured values, and errors, with a colour and a mark for each source and kernel."""
        from wse.validation.plot import figure_of

        return figure_of(self)
