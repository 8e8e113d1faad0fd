"""The table has a row a setting, cells that read back as they were, and columns in one order."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.comparison.sweep.conftest import axes
from wse.errors import BadInput, WseBug
from wse.reports.result import plain
from wse.studies.sweep.row import JournalEntry, flat
from wse.studies.sweep.table import _merge, check_table_path, write_table

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
def test_every_column_once_each_behind_what_precedes_it_in_its_row(rows: list[list[str]]) -> None:
    kinds: dict[str, set[type]] = {}
    for row in rows:
        before = list(kinds)
        _merge(kinds, dict.fromkeys(row, 1))
        assert [name for name in kinds if name in before] == before
        for first, second in itertools.pairwise(row):
            assert second in before or list(kinds)[list(kinds).index(first) + 1] == second
    assert sorted(kinds) == sorted({name for row in rows for name in row})
    assert all(kind == {int} for kind in kinds.values())


def test_report_as_a_row() -> None:
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
