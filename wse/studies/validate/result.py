"""Result of ``wse validate``: predicted rows, summaries of errors, wafer counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.result import Doc, Result
from wse.reports.table import Table
from wse.reports.terminal import WIDEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONSTANT_OF_PROFILE: Final = "constant of the profile"
CALIBRATED: Final = ("closed form", "wafer preset", "constant of the window", CONSTANT_OF_PROFILE)
"""Methods whose values are not predictions, so that summaries of errors exclude them.

A closed form only checks the transcription of a formula. The other methods restate constants that
were taken from such rows."""


class SramFit(Result):
    """Check of whether all layers of a model fit in SRAM, for a prediction that times one layer."""

    fits: Annotated[bool, Doc("Whether all layers of the model fit the SRAM of the PEs.")]


class ValidationRow(Result):
    """A published measurement with its prediction or the reason why there is none."""

    file: Annotated[str, Doc("Name of the file with the measurement.")]
    line: Annotated[int, Doc("Line on which the row begins, counted from 1.")]
    input: Annotated[Mapping[str, str], Doc("Text of every column of the row.")]
    source: Annotated[str, Doc("Where the value was published.")]
    kernel: Annotated[str, Doc("The measured kernel, or a model, or a system and its phase.")]
    kind: Annotated[str | None, Doc("Kind of measurement, as in `summary.by_kind`; only if predicted.")] = None
    where: Annotated[str | None, Doc("Machine of the measurement. Only if the row is predicted.")] = None
    fitted: Annotated[bool | None, Doc("Whether a constant was fitted on the row; only if predicted.")] = None
    measured: Annotated[float | None, Doc("Published value, in the metric of the row; null for a range.", or_null=True)]
    predicted: Annotated[float | None, Doc("Predicted value, in the same metric.", or_null=True)]
    low: Annotated[
        float | None,
        Doc("Low end of the 90 % interval of the model error. Only if it is known and no constant was fitted."),
    ] = None
    high: Annotated[float | None, Doc("High end of the same interval.")] = None
    error_pct: Annotated[float | None, Doc("100 (predicted - measured) / measured.", "%", or_null=True)]
    predicted_plain: Annotated[float | None, Doc("Prediction without drafts, if `predicted` is with them.")] = None
    error_plain_pct: Annotated[float | None, Doc("Error of the prediction without drafts.", "%")] = None
    predicted_other_schedule: Annotated[
        float | None, Doc("Prediction with the other schedule (fused or released). Only for services on wafers.")
    ] = None
    error_other_schedule_pct: Annotated[float | None, Doc("Error of the prediction with that schedule.", "%")] = None
    predicted_free_drafts: Annotated[
        float | None, Doc("Prediction if drafts cost nothing and a verification pass took as long as one token.")
    ] = None
    bound: Annotated[
        float | None, Doc("As `predicted_free_drafts`, with passes at their lower bound: no software is faster.")
    ] = None
    reason: Annotated[str | None, Doc("Why the row is not predicted.", or_null=True)]
    method: Annotated[str | None, Doc("Model that predicts the row.", or_null=True)]
    software: Annotated[str | None, Doc("Software profile whose costs are in the prediction.", or_null=True)]
    sram: Annotated[SramFit | None, Doc("Whether the model fits in SRAM. Only for measurements of models.")] = None


class Errors(Result):
    """Accuracy of the predictions for a group of measurements.

    It consists of the numbers of measurements and of predictions, and the median and the maximum of
    the absolute errors.
    """

    rows: Annotated[int, Doc("Number of measurements.")]
    predicted: Annotated[int, Doc("Number of measurements that are predicted.")]
    median_abs_error_pct: Annotated[float | None, Doc("Median of the absolute errors.", "%", or_null=True)]
    worst_abs_error_pct: Annotated[float | None, Doc("Largest absolute error.", "%", or_null=True)]


class Method(Result):
    """Base class of records about one prediction method, which is a model or a formula."""

    method: Annotated[str, Doc("Model that predicts the rows.")]


class MethodErrors(Errors, Method):
    """Errors of all predictions that one method (a model or a formula) made."""


class SourceAndKernel(Result):
    """Base class of records about the measurements of one kernel in one publication."""

    source: Annotated[str, Doc("Where the values were published.")]
    kernel: Annotated[str, Doc("The measured kernel.")]


class GroupErrors(Errors, SourceAndKernel):
    """Errors of the predictions for the measurements of one kernel in one publication."""


class UnfittedErrors(Errors):
    """Prediction errors for a group of measurements, without those used to fit constants.

    Measurements that only repeat a formula or constant of the models are excluded too.
    """

    fitted: Annotated[int, Doc("Number of predicted measurements used in a fit, which the errors exclude.")]


class KindErrors(UnfittedErrors):
    """Errors for one kind of measurement, such as MeshGEMV on WSE-3 silicon.

    ``coverage_50`` is the fraction of measured values inside the 50 % intervals of their
    predictions, and ``coverage_90`` that inside the 90 % intervals.
    """

    kind: Annotated[str, Doc("What was measured; for kinds that wse does not know, the name of the kernel.")]
    where: Annotated[str, Doc("Machine of the measurements.")]
    coverage_50: Annotated[float | None, Doc("Fraction of the rows without a fit in their 50 % intervals.")] = None
    coverage_90: Annotated[float | None, Doc("Fraction of the rows without a fit in their 90 % intervals.")] = None


class ReasonCount(Result):
    """A reason why measurements are not predicted, and how many measurements it affects."""

    reason: Annotated[str, Doc("The reason.")]
    rows: Annotated[int, Doc("Number of rows that are not predicted for this reason.")]


class GpuErrors(Result):
    """Mean absolute and mean signed error for a group of GPU measurements, such as "dense 70B"."""

    group: Annotated[str, Doc("Name of the group, such as dense 70B.")]
    rows: Annotated[int, Doc("Number of predicted measurements.")]
    mean_abs_error_pct: Annotated[float, Doc("Mean of the absolute errors.", "%")]
    bias_pct: Annotated[float, Doc("Mean of the signed errors.", "%")]
    bare_roofline_ratio: Annotated[
        float | None, Doc("Mean of (pass at the vendor's rates) / (measured time), for times between two tokens.")
    ] = None


class ValidationSummary(UnfittedErrors):
    """Errors over all measurements, and for groups of measurements.

    The errors over all measurements and in ``by_kind`` exclude two types of measurements: those to
    which constants were fitted, and those that only repeat a formula or constant of the models. The
    errors in the other fields include both types.
    """

    by_kind: Annotated[tuple[KindErrors, ...], Doc("Errors of each kind of measurement on each machine.")] = ()
    by_method: Annotated[tuple[MethodErrors, ...], Doc("Errors of each method.")]
    by_other_schedule: Annotated[
        tuple[MethodErrors, ...], Doc("Errors of services on wafers if predicted with the other schedule.")
    ] = ()
    by_source_and_kernel: Annotated[tuple[GroupErrors, ...], Doc("Errors of each source and kernel.")]
    gpus: Annotated[tuple[GpuErrors, ...] | None, Doc("Errors of each group of measurements on GPUs, if any.")] = None
    reasons: Annotated[tuple[ReasonCount, ...], Doc("Reasons why rows are not predicted, the most frequent first.")]


class WafersNeeded(Result):
    """Minimum number of wafers on which a model fits with one software profile.

    Profiles differ in the size of the code that every PE must store.
    """

    software: Annotated[str, Doc("Name of the software profile.")]
    code_bytes_per_pe: Annotated[int, Doc("Code on every PE.", "bytes")]
    wafers: Annotated[int, Doc("Minimum number of wafers.")]


class ModelCapacity(Result):
    """Number of wafers for a model: as stated by a publication, and as needed by the emulator."""

    model: Annotated[str, Doc("Name of the bundled configuration.")]
    wafer: Annotated[str, Doc("Name of the wafer.")]
    dtype: Annotated[str | None, Doc("Element type of the weights.", or_null=True)]
    wafers: Annotated[int | None, Doc("Number of wafers that the publication states.", or_null=True)]
    needed: Annotated[tuple[WafersNeeded, ...], Doc("Minimum number of wafers with each software profile.")]


class Validation(Result):
    """Result of ``wse validate``: measurements, predictions, errors, and required wafers."""

    rows: Annotated[tuple[ValidationRow, ...], Doc("Every measurement, in the order of the files.")]
    summary: Annotated[ValidationSummary, Doc("Counts and errors.")]
    capacity: Annotated[
        tuple[ModelCapacity, ...] | None, Doc("Wafers of each model for which a measurement states their number.")
    ] = None

    def plot(self) -> Figure:
        """Draw the errors of the predictions, with one line per kind of measurement and machine."""
        from wse.studies.validate.plot import figure_of

        return figure_of(self)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build tables of files, errors, reasons for missing predictions, and required wafers.

        Args:
            detail: Whether to list all predicted measurements individually.
            width: Width of the terminal in characters.
        """
        from wse.studies.validate.tables import validation_tables

        return validation_tables(self, "predicted" if detail else "none", width)
