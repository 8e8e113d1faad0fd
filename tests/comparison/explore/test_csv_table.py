"""CSV files that nobody has checked: numbers, words, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from wse.errors import BadInput
from wse.studies.explore import csv_table
from wse.studies.explore.csv_table import read_csv


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_are_numbers_or_words(tmp_path: Path) -> None:
    text = '\ufeffa,b,c,d\r\n1,x,,1e-3\r\n\r\n-2.5,"y,\n""z""",3,\r\n'
    a, b, c, d = read_csv(written(tmp_path, text))
    assert (a.numbers, c.numbers, d.numbers) == ((1, -2.5), (None, 3), (1e-3, None))
    assert (b.numbers, b.words) == (None, ("x", 'y,\n"z"'))
    assert b.distinct == ["x", 'y,\n"z"']


@pytest.mark.parametrize("cell", ["nan", "inf", "1e999", "0x10", "1_000", "١", "true", "1 2"])
def test_what_is_no_finite_number_makes_a_column_of_words(tmp_path: Path, cell: str) -> None:
    first, _ = read_csv(written(tmp_path, f"a,b\n1,2\n{cell},3\n"))
    assert first.numbers is None
    assert first.words == ("1", cell)


BAD: list[tuple[str | bytes, str]] = [
    ("a,b\n1,2\n3\n", "line 3 has 1 cell, the first line"),
    ('a,b\n"1\n\n",2\n3\n', "line 5 has 1 cell"),
    ("a,b\n1,2\n" + f"{'x' * 2001},2\n", "line 3 has a cell of over 2,000 characters"),
    ('a,b\n1,"2\n', "line 2: unexpected end of data"),
    ('a,b\n1,2\n1,"2"x\n', "line 3: ',' expected after '\"'"),
    (f"a,b\n1,{'x' * 200_000}\n", "line 2: field larger than field limit"),
    (b"a,b\n1,2\n\xff,2\n", "line 3 is not UTF-8"),
    ("a\n1\n", "line 1 names 1 columns"),
    ("", "line 1 names 0 columns"),
    (",".join(f"c{i}" for i in range(2_001)) + "\n", "line 1 names 2001 columns"),
    ("a,a\n1,2\n", "line 1: the name 'a' of a column is there twice"),
    ("a,\n1,2\n", "line 1: the name '' of a column is empty"),
    ("a," + "b" * 201 + "\n1,2\n", "of a column is too long"),
    ("a,b\n", "has no rows after its line of names"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_tables_are_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read_csv(written(tmp_path, text))
    line = str(error.value)
    assert message in line
    assert "t.csv" in line
    assert line.isprintable()


def test_more_than_a_page_shows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a,b\n" + "1,2\n" * 5)
    monkeypatch.setattr(csv_table, "MAX_ROWS", 4)
    with pytest.raises(BadInput, match="has over 4 rows of 2 columns"):
        read_csv(path)
    monkeypatch.setattr(csv_table, "MAX_ROWS", 5)
    assert len(read_csv(path)[0].words) == 5
    monkeypatch.setattr(csv_table, "MAX_CELLS", 8)
    with pytest.raises(BadInput, match="has over 4 rows of 2 columns"):
        read_csv(path)
    monkeypatch.setattr(csv_table, "LIMIT_BYTES", 10)
    with pytest.raises(BadInput, match="over 10 bytes"):
        read_csv(path)
    with pytest.raises(BadInput, match="does not exist"):
        read_csv(tmp_path / "none.csv")
