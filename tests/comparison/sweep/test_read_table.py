"""A sweep's result as a frame and as a figure: both are of the table that was written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import wse
from tests.models.helpers import write_config
from wse.errors import BadInput, UnknownName
from wse.studies.sweep.result import SweepResult
from wse.studies.sweep.table import read_entries


@pytest.fixture(scope="module", params=["t.csv", "t.parquet"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """Four settings of the tiny model, two of which cannot be estimated; fewer rows are shown."""
    if request.param == "t.parquet":
        pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("swept")
    model = write_config(folder)
    grid = {"model": model, "mesh": ["4x4", "9999x1"], "wafer.clock_hz": [1e9, 2e9], "prompt_len": 5, "new_tokens": 4}
    return wse.sweep(grid, output=folder / request.param, jobs=1, top=1)


@pytest.fixture
def swept(written: SweepResult, tmp_path: Path) -> SweepResult:
    """The sweep, with a copy of its table that a test may change."""
    return replace(written, table=str(shutil.copy(written.table, tmp_path)))


def test_frame_has_every_setting_and_column(swept: SweepResult) -> None:
    pytest.importorskip("pandas")
    frame = swept.frame()
    assert frame["mesh"].tolist() == ["4x4", "4x4", "9999x1", "9999x1"]
    assert frame["wafer_clock_hz"].tolist() == [1e9, 2e9, 1e9, 2e9]
    assert frame["error"].isna().tolist() == [True, True, False, False]
    fast = frame["decode_tokens_per_s_per_user"]
    assert fast[1] == swept.rows[0].values["user"]
    assert fast[2:].isna().all()
    assert frame["sram_fits"].tolist()[:2] == [True, True]


def test_plot_has_every_setting_over_the_asked_axis(swept: SweepResult) -> None:
    user, _, ttft, _ = swept.plot("wafer.clock_hz").axes
    (line, failed) = user.lines
    assert (line.get_label(), list(line.get_xdata())) == ("mesh 4x4", [1e9, 2e9])
    assert line.get_ydata()[1] == swept.rows[0].values["user"]
    assert list(failed.get_xdata()) == []
    assert len(ttft.lines[0].get_ydata()) == 2
    assert [text.get_text() for text in swept.plot("mesh").axes[0].get_xticklabels()] == ["4x4", "9999x1"]
    with pytest.raises(UnknownName, match="unknown axis 'mehs': did you mean 'mesh'"):
        swept.plot("mehs")


def test_table_that_is_gone_or_another_is_one_line(swept: SweepResult) -> None:
    table = Path(swept.table)
    if table.suffix == ".csv":
        table.write_text(table.read_text().rpartition("\n9999x1")[0].rpartition("\n")[0] + "\n")
        with pytest.raises(BadInput, match="is no longer the table of this sweep, which has 4 rows"):
            swept.plot()
    table.unlink()
    for call in (swept.plot, swept.frame) if find_spec("pandas") else (swept.plot,):
        with pytest.raises(BadInput, match="cannot read the table"):
            call()
    table.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"cannot read the table|no longer the table"):
        swept.plot()


def test_cells_of_csv_have_their_types(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("batch,error,fits,rate,name\n1,,true,1e-05,nan\n2,no,,2.5,x2\n")
    grid, (first, second) = read_entries(table, ("batch",), 2)
    assert grid.axes[0].values == (1, 2)
    assert first.row == {"batch": 1, "error": None, "fits": True, "rate": 1e-5, "name": "nan"}
    assert (second.row["fits"], second.row["rate"], second.row["name"], second.error) == (None, 2.5, "x2", "no")
