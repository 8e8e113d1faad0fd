"""Result of ``wse validate``."""

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
        return validation_tables(self.rows, self.summary, self.capacity, "predicted" if detail else "none", width)
