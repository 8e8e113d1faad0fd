"""Tests of the table file of a sweep: types of cells, order of columns, reading it back, data frame and plot."""

import csv
import itertools
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wse
from tests.comparison.sweep.conftest import axes
from tests.models.helpers import write_config
from wse.errors import BadInput, UnknownName, WseBug
from wse.reports.result import plain
from wse.studies.sweep.result import SweepResult
from wse.studies.sweep.row import JournalEntry, flat
from wse.studies.sweep.table import _merge, check_table_path, read_entries, write_table

ENTRIES = [
    JournalEntry(setting=0, row={"a": 1, "b": 0.1, "inputs_batch": 7, "c": True, "n": 2**70, "t": 'x,"\n'}),
    JournalEntry(setting=1, error="does not fit"),
    JournalEntry(setting=2, row={"a": 2.5, "between": "y", "b": 1e-300, "c": False, "batch": 3}),
]
COLUMNS = ["batch", "error", "a", "between", "b", "c", "n", "t"]


def test_csv_reads_back(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    write_table(axes(batch=3), lambda: ENTRIES, table)
    with table.open(newline="", encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    assert names == COLUMNS
    assert rows[0] == ["1", "", "1", "", "0.1", "true", str(2**70), 'x,"\n']
    assert rows[1] == ["2", "does not fit", "", "", "", "", "", ""]
    assert rows[2] == ["3", "", "2.5", "y", "1e-300", "false", "", ""]
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@given(st.lists(st.sets(st.sampled_from("abcdefg")).map(sorted), min_size=1))
def test_merged_columns_keep_the_order_of_each_row(rows: list[list[str]]) -> None:
    kinds: dict[str, set[type]] = {}
    for row in rows:
        before = list(kinds)
        _merge(kinds, dict.fromkeys(row, 1))
        assert [name for name in kinds if name in before] == before
        for first, second in itertools.pairwise(row):
            assert second in before or list(kinds)[list(kinds).index(first) + 1] == second
    assert sorted(kinds) == sorted({name for row in rows for name in row})
    assert all(kind == {int} for kind in kinds.values())


def test_report_becomes_a_flat_row() -> None:
    assert flat(plain({"a": {"b.c": 1, "l": [1]}, "x": float("nan"), "y": {}})) == {"a_b_c": 1, "x": None}
    with pytest.raises(WseBug, match="two keys of a report are both column a_b"):
        flat({"a": {"b": 1}, "a_b": 2})


def test_parquet_without_its_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"Parquet needs pyarrow: pip install 'wse\[parquet\]', or give a .csv"):
        check_table_path(tmp_path / "t.parquet")


def test_table_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(BadInput, match=r"cannot write the table: .*; correct that and give the command again"):
        write_table(axes(batch=3), lambda: ENTRIES, tmp_path / "t.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.fixture(scope="module", params=["t.csv", pytest.param("t.parquet", marks=pytest.mark.slow)])
def written_sweep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """Return a sweep of four settings of the tiny model, two of which cannot be estimated; only one row is shown."""
    if request.param == "t.parquet":
        pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("swept")
    model = write_config(folder)
    grid = {"model": model, "mesh": ["4x4", "9999x1"], "wafer.clock_hz": [1e9, 2e9], "prompt_len": 5, "new_tokens": 4}
    grid |= {"mapping": "region", "schedule": "baseline"}
    return wse.sweep(grid, output=folder / request.param, jobs=1, top=1)


@pytest.fixture
def result(written_sweep: SweepResult, tmp_path: Path) -> SweepResult:
    """Return the sweep of `written_sweep` with a copy of its table, which a test may change."""
    return replace(written_sweep, table=str(shutil.copy(written_sweep.table, tmp_path)))


def test_frame_has_every_setting_and_column(result: SweepResult) -> None:
    pytest.importorskip("pandas")
    frame = result.frame()
    assert frame["mesh"].tolist() == ["4x4", "4x4", "9999x1", "9999x1"]
    assert frame["wafer_clock_hz"].tolist() == [1e9, 2e9, 1e9, 2e9]
    assert frame["error"].isna().tolist() == [True, True, False, False]
    fast = frame["decode_tokens_per_s_per_user"]
    assert fast[1] == result.rows[0].values["user"]
    assert fast[2:].isna().all()
    assert frame["sram_fits"].tolist()[:2] == [True, True]


def test_plot_has_every_setting_over_the_given_axis(result: SweepResult) -> None:
    user, _, ttft, _ = result.plot("wafer.clock_hz").axes
    (line, failed) = user.lines
    assert (line.get_label(), list(line.get_xdata())) == ("mesh 4x4", [1e9, 2e9])
    assert line.get_ydata()[1] == result.rows[0].values["user"]
    assert list(failed.get_xdata()) == []
    assert len(ttft.lines[0].get_ydata()) == 2
    assert [text.get_text() for text in result.plot("mesh").axes[0].get_xticklabels()] == [
        "4x4",
        "9999x1",
    ]
    with pytest.raises(UnknownName, match="unknown axis 'mehs': did you mean 'mesh'"):
        result.plot("mehs")


def test_missing_or_changed_table_is_an_error(result: SweepResult) -> None:
    table = Path(result.table)
    if table.suffix == ".csv":
        table.write_text(table.read_text().rpartition("\n9999x1")[0].rpartition("\n")[0] + "\n")
        with pytest.raises(BadInput, match="is no longer the table of this sweep, which has 4 rows"):
            result.plot()
    table.unlink()
    for call in (result.plot, result.frame) if find_spec("pandas") else (result.plot,):
        with pytest.raises(BadInput, match="cannot read the table"):
            call()
    table.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"cannot read the table|no longer the table"):
        result.plot()


def test_cells_of_csv_have_their_types(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("batch,error,fits,rate,name\n1,,true,1e-05,nan\n2,no,,2.5,x2\n")
    grid, (first, second) = read_entries(table, ("batch",), 2)
    assert grid.axes[0].values == (1, 2)
    assert first.row == {"batch": 1, "error": None, "fits": True, "rate": 1e-5, "name": "nan"}
    assert (second.row["fits"], second.row["rate"], second.row["name"], second.error) == (None, 2.5, "x2", "no")
