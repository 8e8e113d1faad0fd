"""Validation: the measurements of files, or of those that come with wse, each with its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from wse.compiler.options import REFUSE, REPORT
from wse.errors import BadInput, UnknownName
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import console_on
from wse.reports.terminal_table import print_tables
from wse.studies.validate.gpu_calibration import LeaveOut, left_out
from wse.studies.validate.gpu_errors import gpu_errors
from wse.studies.validate.gpu_fit import fit_rows
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.predictors.capacity import capacity_of
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.predictors.prediction import Prediction, decline
from wse.studies.validate.result import Validation
from wse.studies.validate.summary import ComparedRow, summarise
from wse.studies.validate.tables import Listed, validation_tables

BUNDLED: Final = Path(__file__).parents[2] / "data" / "measurements"
LISTED: Final[tuple[Listed, ...]] = ("predicted", "all", "none")


def validate(files: Sequence[Path] = (), *, capacity: str = REPORT, on_progress: OnProgress = ignore) -> Validation:
    """Predict every row of some files of measurements; of those that come with wse where no file is given.

    Args:
        files: CSV files with the columns of one of
            `wse.studies.validate.measured.measurements.TABLES`, or names of those that come with
            wse.
        capacity: ``report`` predicts models that do not fit the SRAM as well, ``refuse`` does not.
        on_progress: Called with (done, all, kernel) before each row and at the end.

    Raises:
        BadMeasurements: a file that cannot be read; with line, column and value.
        UnknownName: ``capacity`` is neither of the two.
    """
    if capacity not in (REPORT, REFUSE):
        raise UnknownName("choice", capacity, (REPORT, REFUSE), where="--capacity")
    measurements = _rows(files)
    return validation_of(compare(measurements, on_progress, capacity))


def leave_out(files: Sequence[Path] = (), *, on_progress: OnProgress = ignore) -> LeaveOut:
    """Return what constants of GPU stacks that are fitted on a part of the rows of files predict of the others.

    Raises:
        BadMeasurements: a file that cannot be read.
        BadInput: no row is one that constants are fitted on.
    """
    rows = fit_rows(_rows(files))
    tests = left_out(rows, on_progress)
    if not tests:
        msg = "--leave-out: no rows that constants of GPU stacks are fitted on; give a file with them by --data"
        raise BadInput(msg)
    return LeaveOut(tests=tests)


def check_listed(choice: str) -> Listed:
    """Return the choice of ``--rows``. Raises UnknownName for another."""
    listed: Listed | None = next((listing for listing in LISTED if listing == choice), None)
    if listed is None:
        raise UnknownName("choice", choice, LISTED, where="--rows")
    return listed


def print_validation(validation: Validation, stream: TextIO, listed: Listed) -> None:
    """Print the tables of a validation, with the rows that are to be listed."""
    console = console_on(stream)
    rows, summary, capacity = validation.rows, validation.summary, validation.capacity
    print_tables(console, validation_tables(rows, summary, capacity, listed, console.width))


def validation_of(rows: Sequence[ComparedRow]) -> Validation:
    """Return the result for some rows with their answers."""
    return Validation(
        rows=tuple(row.as_row() for row in rows),
        summary=replace(summarise(rows), gpus=gpu_errors(rows) or None),
        capacity=capacity_of(row.measurement for row in rows) or None,
    )


def compare(rows: Sequence[Measurement], on_progress: OnProgress, capacity: str = REPORT) -> list[ComparedRow]:
    """Return each row with its answer, in order; with ``capacity`` ``refuse`` none for a model that does not fit."""
    compared = []
    answers: dict[tuple[object, ...], Prediction] = {}  # by all that a row says but its value
    for done, row in enumerate(rows):
        on_progress(done, len(rows), row.kernel)
        key = (row.table, row.measured is None, *(cell for column, cell in row.input.items() if column != "value"))
        if key not in answers:
            answers[key] = predict(row)
        answer = answers[key]
        if capacity == REFUSE and answer.sram_fits is False:
            answer = decline("not all layers of the model fit the SRAM of the PEs that one was timed on")
        beside = ComparedRow(row, answer)
        if answer.value is not None and beside.error_pct is None:
            beside = ComparedRow(row, decline("the measured value is too small for a relative error"))
        compared.append(beside)
    on_progress(len(rows), len(rows), "")
    return compared


def default_files() -> list[Path]:
    """Return the files that come with wse."""
    return sorted(BUNDLED.glob("*.csv"))


def _rows(files: Sequence[Path]) -> list[Measurement]:
    """Return the rows of files; those that come with wse are called by their names alone, wherever it is installed."""
    return [row for file in _found(files) for row in read(file, file.name if file.parent == BUNDLED else "")]


def _found(files: Sequence[Path]) -> list[Path]:
    """Return the files that were requested, those that come with wse where none was.

    A name that no file here has is looked for among the latter.
    """
    known = {file.name: file for file in default_files()}
    return [file if file.exists() else known.get(str(file), file) for file in files] or default_files()
