"""Tests of the bundled measurements against the files from which they were packed."""

from pathlib import Path
from types import ModuleType

import pytest

from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.predictors.prediction import unless_declined
from wse.studies.validate.predictors.services import service_request
from wse.studies.validate.study import BUNDLED

FILES = sorted(BUNDLED.glob("*.csv"))


@pytest.fixture(scope="module")
def originals(external_data: Path) -> dict[str, list[Measurement]]:
    """Return the rows of the files from which the bundled ones were packed, by file name."""
    return {file.name: read(external_data / "reference" / file.name) for file in FILES}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_packed_rows_have_the_predictions_of_the_originals(originals: dict[str, list[Measurement]], file: Path) -> None:
    """Every fifth row is compared."""
    for small, large in list(zip(read(file), originals[file.name], strict=True))[::5]:
        if small.table == "public":  # an estimate of a service takes seconds
            answers = [unless_declined(service_request, m) for m in (small, large)]
        else:
            answers = [predict(m) for m in (small, large)]
        assert answers[0] == answers[1], (small.line, large.line)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_script_writes_the_bundled_file(
    originals: dict[str, list[Measurement]], script: ModuleType, file: Path
) -> None:
    assert script.text_of(originals[file.name]) == file.read_text(encoding="utf-8")


def test_packed_rows_name_their_source() -> None:
    assert FILES
    for file in FILES:
        assert file.stat().st_size < 600_000
        for m in read(file):
            assert m.source
