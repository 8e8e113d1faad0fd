"""Study behind ``wse validate``: predicts measurements from files, by default the bundled files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from wse.compiler.options import REFUSE, REPORT
from wse.errors import BadInput, UnknownName
from wse.hardware.load import load_software
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import console_on
from wse.reports.terminal_table import print_tables
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import replace_options
from wse.studies.validate.gpu_calibration import LeaveOut, fit_rows, left_out
from wse.studies.validate.measured.measurements import BUNDLED as BUNDLED
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.predictors.prediction import Prediction, unless_declined
from wse.studies.validate.predictors.services import PROFILE, service_request
from wse.studies.validate.result import ModelCapacity, Validation, WafersNeeded
from wse.studies.validate.summary import ComparedRow, gpu_errors, intervals_of, summarise
from wse.studies.validate.tables import Listed, validation_tables

LISTED: Final[tuple[Listed, ...]] = ("predicted", "all", "none")


def validate(files: Sequence[Path] = (), *, capacity: str = REPORT, on_progress: OnProgress = ignore) -> Validation:
    """Predict every measurement in CSV files.

    Args:
        files: CSV files with the columns of one of
            `wse.studies.validate.measured.measurements.TABLES`, or names of bundled files. By
            default, all bundled files.
        capacity: ``report`` predicts models even if they do not fit in SRAM; ``refuse`` declines to
            predict them.
        on_progress: Called with (finished rows, all rows, kernel) before each row and at the end.

    Raises:
        BadMeasurements: A file cannot be read. The message states the line, column and value.
        UnknownName: ``capacity`` is neither ``report`` nor ``refuse``.
    """
    if capacity not in (REPORT, REFUSE):
        raise UnknownName("choice", capacity, (REPORT, REFUSE), place="--capacity")
    measurements = _rows(files)
    return validation_of(compare(measurements, on_progress, capacity))


def leave_out(files: Sequence[Path] = (), *, on_progress: OnProgress = ignore) -> LeaveOut:
    """Cross-validate the GPU model: fit it to parts of the measurements and predict the rest.

    Args:
        files: CSV files, or names of bundled files. By default, all bundled files.
        on_progress: Called with (finished tests, total, name of the next test).

    Raises:
        BadMeasurements: A file cannot be read.
        BadInput: The files contain no measurements suitable for these fits.
    """
    rows = fit_rows(_rows(files))
    tests = left_out(rows, on_progress)
    if not tests:
        raise BadInput(
            "--leave-out: no rows that constants of GPU stacks are fitted on; give a file with them by --data"
        )
    return LeaveOut(tests=tests)


def check_listed(choice: str) -> Listed:
    """Check the option ``--rows``, which selects the measurements to list, and return it.

    Raises:
        UnknownName: The value is not in `LISTED`.
    """
    if choice not in LISTED:
        raise UnknownName("choice", choice, LISTED, place="--rows")
    return choice


def print_validation(validation: Validation, stream: TextIO, listed_rows: Listed) -> None:
    """Print the tables of a validation.

    Args:
        validation: Measurements with their predictions, and a summary of the errors.
        stream: Output stream.
        listed_rows: Which measurements to list individually: ``predicted``, ``all`` or ``none``.
    """
    console = console_on(stream)
    print_tables(console, validation_tables(validation, listed_rows, console.width))


def validation_of(rows: Sequence[ComparedRow]) -> Validation:
    """Build the result of ``wse validate`` from measurements and their predictions.

    The result also contains intervals of the predictions, a summary of the errors, and the number
    of wafers that each model needs.
    """
    return Validation(
        rows=tuple(row.as_row(interval) for row, interval in zip(rows, intervals_of(rows), strict=True)),
        summary=replace(summarise(rows), gpus=gpu_errors(rows) or None),
        capacity=capacity_of(row.measurement for row in rows) or None,
    )


def compare(rows: Sequence[Measurement], on_progress: OnProgress, capacity: str = REPORT) -> list[ComparedRow]:
    """Predict all measurements, in order, and return them with their predictions.

    Measurements that differ only in their published value share a prediction.

    Args:
        rows: The measurements.
        on_progress: Called with (finished rows, all rows, kernel) before each row and at the end.
        capacity: ``report`` predicts models even if they do not fit in SRAM; ``refuse`` declines to
            predict them.
    """
    compared_rows = []
    predictions: dict[tuple[object, ...], Prediction] = {}  # by all columns except the value
    for i, row in enumerate(rows):
        on_progress(i, len(rows), row.kernel)
        key = (row.table, row.measured is None, *(cell for column, cell in row.input.items() if column != "value"))
        if key not in predictions:
            predictions[key] = predict(row)
        prediction = predictions[key]
        if capacity == REFUSE and prediction.sram_fits is False:
            prediction = Prediction(reason="not all layers of the model fit the SRAM of the PEs that one was timed on")
        compared_row = ComparedRow(row, prediction)
        if prediction.value is not None and compared_row.error_pct is None:
            compared_row = ComparedRow(row, Prediction(reason="the measured value is too small for a relative error"))
        compared_rows.append(compared_row)
    on_progress(len(rows), len(rows), "")
    return compared_rows


def default_files() -> list[Path]:
    """Return the bundled files of measurements, sorted by name."""
    return sorted(BUNDLED.glob("*.csv"))


def _rows(files: Sequence[Path]) -> list[Measurement]:
    """Read all measurements from files, by default from all bundled files.

    A nonexistent path is replaced by the bundled file of the same name, if there is one. Bundled
    files are reported without their folder, so that results do not depend on the installation path.
    """
    bundled_files = {file.name: file for file in default_files()}
    paths = [file if file.exists() else bundled_files.get(str(file), file) for file in files] or default_files()
    return [row for path in paths for row in read(path, path.name if path.parent == BUNDLED else "")]


RESEARCH_PROFILES: Final = ("tuned", "academic")


def wafers_needed(request: EstimateRequest) -> tuple[WafersNeeded, ...]:
    """Return the minimum number of wafers on which a model fits, per software profile.

    Profiles differ in how much SRAM their code needs on each PE.

    Args:
        request: The model and its lengths. Its number of wafers and context are ignored.
    """
    wafers = []
    for name in (PROFILE, *RESEARCH_PROFILES):
        estimate = prepare_estimate(replace_options(request, software=name, wafers=None, context=None))
        code = load_software(name, estimate.whole.generation).code_bytes_per_pe
        wafers.append(WafersNeeded(software=name, code_bytes_per_pe=code, wafers=estimate.options.wafers))
    return tuple(wafers)


def capacity_of(rows: Iterable[Measurement]) -> tuple[ModelCapacity, ...]:
    """Compare the wafer counts that publications state with the minimum on which each model fits.

    Args:
        rows: Measurements. Rows that do not describe services, or do not state a wafer count, are
            skipped.

    Returns:
        One record per distinct model with a stated wafer count.
    """
    requests: dict[EstimateRequest, None] = {}  # a dict, to keep the order of the rows
    for row in rows:
        service = unless_declined(service_request, row)
        if service is not None and service.request.wafers is not None:
            requests.setdefault(replace(service.request, context=None))
    return tuple(
        ModelCapacity(
            model=str(request.model),
            wafer=str(request.machine.wafer),
            dtype=request.types.dtype,
            wafers=request.wafers,
            needed=wafers_needed(request),
        )
        for request in requests
    )
