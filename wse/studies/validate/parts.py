"""Parts of a validation: rows beside their predictions, errors in short, and wafers that models need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from wse.reports.result import Doc, Result

CALIBRATED: Final = ("closed form", "wafer preset", "constant of the window")
"""Methods that check a transcription of a formula, or state a constant that was taken from such
rows."""


@dataclass(frozen=True, kw_only=True)
class SramFit(Result):
    """The result of a check whether a model fits the PEs that one of its layers was timed on."""

    fits: Annotated[bool, Doc("Whether all layers of the model fit the SRAM of the PEs.")]


@dataclass(frozen=True, kw_only=True)
class ValidationRow(Result):
    """A published measurement beside its prediction, or the reason why there is none."""

    file: Annotated[str, Doc("The file as it was named.")]
    line: Annotated[int, Doc("The line that the row begins on, from 1.")]
    input: Annotated[Mapping[str, str], Doc("Every column of the row, as given.")]
    source: Annotated[str, Doc("Where the value was published.")]
    kernel: Annotated[str, Doc("The kernel, or a model, or a system and its phase.")]
    kind: Annotated[str | None, Doc("What was measured, as in `summary.by_kind`; of a row that is predicted.")] = None
    where: Annotated[str | None, Doc("On what; of a row that is predicted.")] = None
    measured: Annotated[
        float | None, Doc("The published value, in the row's own metric; null for a range.", or_null=True)
    ]
    predicted: Annotated[float | None, Doc("The predicted value, in the same metric.", or_null=True)]
    error_pct: Annotated[float | None, Doc("100 (predicted - measured) / measured.", "%", or_null=True)]
    predicted_plain: Annotated[
        float | None, Doc("The prediction without speculative decoding, where the other is with it.")
    ] = None
    error_plain_pct: Annotated[float | None, Doc("Error of the prediction without speculative decoding.", "%")] = None
    predicted_other_schedule: Annotated[
        float | None, Doc("The prediction by the other schedule, of rows by `estimate`: fused or released.")
    ] = None
    error_other_schedule_pct: Annotated[float | None, Doc("Error of the prediction by the other schedule.", "%")] = None
    predicted_free_drafts: Annotated[
        float | None, Doc("The prediction, were drafts free and passes over several tokens as long as over one.")
    ] = None
    bound: Annotated[
        float | None, Doc("The same, with passes that take the bound of a token: no software is faster.")
    ] = None
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
class KindErrors(Errors):
    """Errors of the rows of one kind of measurements that are no formulas and no constants of the models."""

    kind: Annotated[str, Doc("What was measured; the kernel where it is none that wse knows.")]
    where: Annotated[str, Doc("On what.")]
    fitted: Annotated[str, Doc("On which of such rows constants were fitted; empty where that is not known.")]


@dataclass(frozen=True, kw_only=True)
class ReasonCount(Result):
    """A reason why rows are not predicted."""

    reason: Annotated[str, Doc("The reason.")]
    rows: Annotated[int, Doc("Rows that are not predicted for it.")]


@dataclass(frozen=True, kw_only=True)
class GpuErrors(Result):
    """Errors of rows about GPUs."""

    group: Annotated[str, Doc("What the rows are of.")]
    rows: Annotated[int, Doc("Rows that are predicted.")]
    mean_abs_error_pct: Annotated[float, Doc("Mean of the absolute errors.", "%")]
    bias_pct: Annotated[float, Doc("Mean of the signed errors.", "%")]
    bare_roofline_ratio: Annotated[
        float | None, Doc("Mean of what passes take at stated rates over what was measured; of times between tokens.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ValidationSummary(Errors):
    """Errors over all rows but those that state a formula or a constant, with errors by method, source and kernel."""

    by_kind: Annotated[tuple[KindErrors, ...], Doc("Errors by what was measured, and on what.")] = ()
    by_method: Annotated[tuple[MethodErrors, ...], Doc("Errors by method.")]
    by_other_schedule: Annotated[
        tuple[MethodErrors, ...], Doc("Errors of rows by `estimate`, were they predicted by the other schedule.")
    ] = ()
    by_source_and_kernel: Annotated[tuple[GroupErrors, ...], Doc("Errors by source and kernel.")]
    gpus: Annotated[tuple[GpuErrors, ...] | None, Doc("Errors of rows about GPUs by group, where there are any.")] = (
        None
    )
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
