"""Validation: the measurements of files, or of the data that is at hand, each with its prediction."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from wse.studies.validation.measurements import Measurement, read
from wse.studies.validation.predict import predict
from wse.studies.validation.summary import Compared, summarise

BUNDLED: Final = Path(__file__).parents[2] / "data" / "measurements"


Heard = Callable[[int, int, str], None]
"""Told of (done, all, kernel) before each row and at the end."""


def compare(rows: Sequence[Measurement], heard: Heard) -> list[Compared]:
    """Each row with its answer, in order."""
    found = []
    for done, row in enumerate(rows):
        heard(done, len(rows), row.kernel)
        found.append(Compared(row, predict(row)))
    heard(len(rows), len(rows), "")
    return found


def validate(files: Sequence[Path], heard: Heard) -> list[Compared]:
    """All rows of ``files`` with their answers; of the data at hand where no file is given.

    Raises:
        BadMeasurements: a file that cannot be read; with line, column and value.
    """
    return compare([row for file in files or default_files() for row in read(file)], heard)


def default_files() -> list[Path]:
    """The files in ``$WSE_SHARED/reference`` or ``../shared/reference``; where there are none, those of wse."""
    given = os.environ.get("WSE_SHARED")
    for folder in ([Path(given)] if given else []) + [Path("..") / "shared"]:
        found = sorted((folder / "reference").glob("*.csv"))
        if found:
            return found
    return sorted(BUNDLED.glob("*.csv"))


def report(rows: Sequence[Compared]) -> dict[str, Any]:
    """The JSON report: ``rows`` and ``summary``."""
    return {"rows": [row.as_row() for row in rows], "summary": summarise(rows)}
