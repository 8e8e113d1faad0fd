"""Tests of reading files of measurements, and of one-line errors with line, column, value and remedy."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.measurement_rows import GOOD, file_of
from wse.errors import WseError
from wse.studies.validate.measured.cells import LARGEST, REQUIRED
from wse.studies.validate.measured.measurements import TABLES, Measurement, parse, read
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.study import BUNDLED, compare, validation_of


def refusal(text: str) -> str:
    """Return the message of the error that refuses a text; check that it is one line."""
    with pytest.raises(WseError) as caught:
        list(parse(text, "m.csv"))
    line = str(caught.value)
    assert line.isprintable()
    return line


def test_row_has_its_texts_and_its_numbers() -> None:
    (m,) = parse(file_of({**GOOD, "grid_h": "3", "M,N,K": "768,64,", "dtype": "f16"}), "m.csv")
    assert (m.file, m.line, m.table) == ("m.csv", 2, "microbench")
    assert (m.rows, m.cols, m.words, m.measured, m.element_bytes) == (3, 512, 1, 3128.0, 2)
    assert m.sizes["M"] == 768
    assert m.sizes["N"] == 64
    assert "K" not in m.sizes
    assert m.input["grid_w"] == "512"
    assert m.input.keys() == set(TABLES["microbench"])


def test_file_may_have_any_column_order_byte_order_mark_crlf_and_blank_lines(tmp_path: Path) -> None:
    plain = file_of(GOOD, {**GOOD, "note": 'one, "two"'})
    rows = list(csv.DictReader(io.StringIO(plain)))
    out = io.StringIO()
    writer = csv.DictWriter(out, list(reversed(TABLES["microbench"])), lineterminator="\r\n")
    writer.writeheader()
    writer.writerow(rows[0])
    out.write("\r\n  \r\n")
    writer.writerow(rows[1])
    path = tmp_path / "m.csv"
    path.write_bytes(b"\xef\xbb\xbf" + out.getvalue().encode())
    first, second = read(path)
    assert (first.line, second.line) == (2, 5)
    assert second.text("note") == 'one, "two"'
    assert dict(first.input) == rows[0]


def test_row_over_several_lines_has_the_number_of_its_first_line() -> None:
    rows = list(parse(file_of({**GOOD, "note": "one\ntwo\nthree"}, GOOD), "m.csv"))
    assert [m.line for m in rows] == [2, 5]


@pytest.mark.parametrize("value", ["10-20", "8 - 21", "100s", "2+2*ceil(n/8)", "> 5", "~12"])
def test_range_is_read_but_has_no_measured_value(value: str) -> None:
    (m,) = parse(file_of({**GOOD, "value": value}), "m.csv")
    assert m.measured is None
    assert predict(m).value is None
    assert "range" in predict(m).reason


CELLS = [
    ("value", "nan", ["line 2", "column value", "'nan'", "finite"]),
    ("value", "-3", ["line 2", "column value", "'-3'", "not negative"]),
    ("value", "", ["line 2", "column value", "''", "12.5"]),
    ("grid_w", "1e9", ["line 2", "column grid_w", "'1e9'", "4,096"]),
    ("grid_h", "-4", ["line 2", "column grid_h", "'-4'", "leave the cell empty"]),
    ("vector_len_bytes", "9" * 400, ["line 2", "column vector_len_bytes", "...", "leave the cell empty"]),
    ("M,N,K", "1,2,x", ["line 2", "column M,N,K", "'x'", "whole number"]),
    ("M,N,K", "5,6", ["line 2", "column M,N,K", "'5,6'", "M,N,K"]),
    ("metric", "furlongs", ["line 2", "column metric", "'furlongs'", "cycles"]),
    ("note", "n" * 20_000, ["line 2", "column note", "20,000 characters", "10,000"]),
]


@pytest.mark.parametrize(("column", "cell", "parts"), CELLS, ids=[f"{c}={v[:12]}" for c, v, _ in CELLS])
def test_bad_cell_is_refused(column: str, cell: str, parts: list[str]) -> None:
    line = refusal(file_of({**GOOD, column: cell}))
    assert [part for part in ["m.csv", *parts] if part not in line] == [], line


def test_text_in_place_of_sizes_is_none() -> None:
    (m,) = parse(file_of({**GOOD, "M,N,K": "4096 tokens"}), "m.csv")
    assert "M" not in m.sizes


HEADERS = [
    ("grid_w", "grid_width", ["line 1", "unknown column 'grid_width'", "did you mean 'grid_w'?"]),
    ("grid_w", "units", ["line 1", "unknown column 'units'"]),
    ("grid_w", "grid_h", ["line 1", "'grid_h' is given 2 times", "remove"]),
]


@pytest.mark.parametrize(("column", "instead", "parts"), HEADERS)
def test_bad_column_is_refused(column: str, instead: str, parts: list[str]) -> None:
    line = refusal(file_of(GOOD).replace(column, instead, 1))
    assert [part for part in parts if part not in line] == [], line


def test_missing_column_is_refused() -> None:
    header, row = file_of(GOOD).splitlines()
    assert "has no column 'note'" in refusal(f"{header.removesuffix(',note')}\n{row.removesuffix(',')}\n")


def test_columns_for_inference_are_those_of_the_formats_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    required, *others = page.partition("## Measurements")[2].split("```text\n")[1].partition("```")[0].splitlines()
    assert required.split() == list(REQUIRED)
    assert {*REQUIRED, *" ".join(others).split()} == set(TABLES["inference"])


def test_files_of_other_formats_are_refused() -> None:
    assert "is empty" in refusal("")
    assert "is empty" in refusal("\n\n")
    assert "its columns begin 'a', 'b'" in refusal("a,b\n1,2\n")
    assert "see docs/formats.md" in refusal("a,b\n1,2\n")
    assert "has 3 cells" in refusal(file_of(GOOD) + "1,2,3\n")
    assert "line 3: not CSV" in refusal(file_of(GOOD) + '"never closed,1\n')


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WseError, match="does not exist"):
        read(tmp_path / "none.csv")
    with pytest.raises(WseError, match="not a regular file"):
        read(tmp_path)
    path = tmp_path / "m.csv"
    path.write_bytes(file_of(GOOD).encode() + b"\xff")
    with pytest.raises(WseError, match=r"line 3: byte [0-9]+ is not UTF-8"):
        read(path)
    path.write_bytes(b"x" * (2**24 + 1))
    with pytest.raises(WseError, match="over 16,777,216 bytes"):
        read(path)


def test_file_with_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.studies.validate.measured.measurements.MAX_ROWS", 2)
    assert "line 4: more than 2 rows" in refusal(file_of(GOOD, GOOD, GOOD))


def parsed(text: str) -> list[Measurement] | str:
    """Return the rows of a text, or the message of the error that refuses it."""
    try:
        return list(parse(text, "m.csv"))
    except WseError as error:
        return str(error)


REAL = [cell for path in sorted(BUNDLED.glob("*.csv")) for m in read(path)[::23] for cell in m.input.values()]
ODD = ["", "nan", "1e9", "0", "-1", "10-20", "\x00", "\x1b[31m", '"', ",", "é", "9" * 50, "S=0", "tile 0x0, radius 0"]
CELL = st.sampled_from(
    [*REAL, *ODD, "7", "64", "reduce", "allreduce", "two-phase S=3", "auto-gen", "K-tree g=99", "ring"]
)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(TABLES)), st.lists(st.lists(CELL, min_size=0, max_size=20), max_size=4), st.data())
def test_file_of_any_cells_is_read_or_refused(table: str, rows: list[list[str]], data: st.DataObject) -> None:
    """Combine cells of bundled files and unusual cells in rows, some of which have the right number of cells."""
    columns = TABLES[table]
    whole = [
        {c: data.draw(st.sampled_from(["", "1", "33"]) if c in LARGEST else CELL) for c in columns}
        | {"metric": "cycles", "value": "5"}
        for _ in range(2)
    ]
    out = io.StringIO()
    csv.writer(out).writerows([columns, *([r[c] for c in columns] for r in whole), *rows])
    found = parsed(out.getvalue())
    if isinstance(found, str):
        assert "m.csv" in found
    else:
        assert all(
            (r.predicted is None) != (r.reason is None) for r in validation_of(compare(found, lambda *_: None)).rows
        )


@settings(deadline=None, max_examples=20)
@given(st.text(st.sampled_from('",\n\r\0\ufeff\ud800 -1.aé'), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    header = ",".join('"M,N,K"' if c == "M,N,K" else c for c in TABLES["microbench"])
    for whole in (text, f"{header}\n{text}"):
        found = parsed(whole)
        assert isinstance(found, list) or found.startswith("m.csv")
