"""Validation: the measurements of files, or of the data that is at hand, each with its prediction."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from wse.compiler.options import REFUSE, REPORT
from wse.errors import UnknownName
from wse.validation.measured.measurements import Measurement, read
from wse.validation.predictors.capacity import capacity_facts
from wse.validation.predictors.predict import predict
from wse.validation.predictors.prediction import Prediction, because
from wse.validation.summary import Compared, summarise

BUNDLED: Final = Path(__file__).parents[1] / "data" / "measurements"


Heard = Callable[[int, int, str], None]
"""Told of (done, all, kernel) before each row and at the end."""


def compare(rows: Sequence[Measurement], heard: Heard, capacity: str = REPORT) -> list[Compared]:
    """Each row with its answer, in order; with ``capacity`` ``refuse`` none for a model that does not fit."""
    found = []
    answers: dict[tuple[object, ...], Prediction] = {}  # by all that a row says but its value
    for done, row in enumerate(rows):
        heard(done, len(rows), row.kernel)
        told = (cell for column, cell in row.input.items() if column != "value")
        key = (row.table, row.measured is None, *told)
        if key not in answers:
            answers[key] = predict(row)
        answer = answers[key]
        if capacity == REFUSE and answer.sram_fits is False:
            answer = because("not all layers of the model fit the SRAM of the PEs that one was timed on")
        compared = Compared(row, answer)
        if answer.value is not None and compared.error_pct is None:
            compared = Compared(row, because("the measured value is too small for a relative error"))
        found.append(compared)
    heard(len(rows), len(rows), "")
    return found


def validate(files: Sequence[Path], heard: Heard, capacity: str = REPORT) -> list[Compared]:
    """All rows of ``files`` with their answers; of the data at hand where no file is given.

    Raises:
        BadMeasurements: a file that cannot be read; with line, column and value.
    """
    return compare([row for file in files or default_files() for row in read(file)], heard, capacity)


def check_capacity_option(choice: str) -> None:
    """Refuse what ``--capacity`` does not know."""
    if choice not in (REPORT, REFUSE):
        raise UnknownName("choice", choice, (REPORT, REFUSE), where="--capacity")


def default_files() -> list[Path]:
    """The files in ``$WSE_SHARED/reference`` or ``../shared/reference``; where there are none, those of wse."""
    given = os.environ.get("WSE_SHARED")
    for folder in ([Path(given)] if given else []) + [Path("..") / "shared"]:
        found = sorted((folder / "reference").glob("*.csv"))
        if found:
            return found
    return sorted(BUNDLED.glob("*.csv"))


def report(rows: Sequence[Compared]) -> dict[str, Any]:
    """The JSON report: ``rows``, ``summary``, and ``capacity`` where rows state the wafers of a service."""
    facts: dict[str, Any] = {"rows": [row.as_row() for row in rows], "summary": summarise(rows)}
    capacity = capacity_facts(row.measurement for row in rows)
    return facts | ({"capacity": capacity} if capacity else {})
