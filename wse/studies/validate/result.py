"""Validation, the result of ``wse validate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from wse.reports.result import Doc, Result
from wse.reports.table import Table
from wse.reports.terminal import WIDEST
from wse.studies.validate.parts import ModelCapacity, ValidationRow, ValidationSummary
from wse.studies.validate.tables import validation_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        from wse.studies.validate.plot import figure_of

        return figure_of(self)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Files, reasons, errors and capacity; with ``detail`` the predicted rows."""
        return validation_tables(self.rows, self.summary, self.capacity, "predicted" if detail else "none", width)
