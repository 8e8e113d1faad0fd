"""Tests of rows of the table `inference`: a bad row has a line and a reason, and all other rows are predicted."""

from pathlib import Path

import pytest

from tests.support.measurement_rows import ROW, inference_file, rows_of
from wse.errors import BadMeasurements
from wse.studies.validate.measured.measurements import parse, read
from wse.studies.validate.measured.text_numbers import read_number, read_whole
from wse.studies.validate.study import compare, validate, validation_of


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({"block_rows": "25x"}, "column block_rows = '25x': give a whole number from 1 to 4,096"),
        ({"batch": "0"}, "column batch = '0'"),
        ({"batch": "1.5"}, "column batch = '1.5'"),
        ({"value": ""}, "column value is empty"),
        ({"value": "nan"}, "column value = 'nan': not a finite number"),
        ({"value": "about 5"}, "column value = 'about 5'"),
        ({"value": "-5"}, "negative"),
        ({"unit": "furlongs"}, "column unit = 'furlongs': names no known unit"),
        ({"kind": "heard"}, "column kind = 'heard'"),
        ({"model": " "}, "column model is empty"),
        ({"layers_per_stage": "many"}, "column layers_per_stage = 'many'"),
        ({"layers_per_stage": "0"}, "column layers_per_stage = '0': give numbers from 1 to 1,000"),
        ({"layers_per_stage": "9" * 400}, "give numbers from 1 to 1,000"),
        ({"metric": f"span of {'9' * 400} steps"}, "is larger than 1,000,000,000,000"),
        ({"settings": f"CHUNK {'9' * 5000}"}, "is larger than 1,000,000,000,000"),
        ({"context_mean": "x"}, "column context_mean = 'x': give a number from 0"),
        ({"id": "A-1"}, "the id 'A-1' is that of line 2"),
        ({"context_min": "9000"}, "context_min = 9000 is larger than context_max = 8192"),
    ],
)
def test_wrong_cell_is_the_fault_of_its_row(cells: dict[str, str], fault: str) -> None:
    first, wrong, last = rows_of({}, cells, {})
    assert (first.fault, last.fault) == ("", "")
    assert first.measured == last.measured == 800_000
    assert (wrong.line, wrong.measured) == (3, None)
    assert fault in wrong.fault


def test_broken_record_affects_only_its_own_row() -> None:
    lines = inference_file(*({**ROW, "id": f"A-{i}", "settings": "x"} for i in range(4))).splitlines(keepends=True)
    lines[2] = lines[2].replace(",x,", ',"x,')  # an unclosed quote
    lines[3] = "A-9,qwen3-4b\n"
    rows = list(parse("".join(lines), "m.csv"))
    assert [row.line for row in rows] == [2, 3, 4, 5]
    assert [bool(row.fault) for row in rows] == [False, True, True, False]
    assert "has 2 cells" in rows[2].fault


def test_lines_and_reasons_of_wrong_rows_are_in_the_result_and_in_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(inference_file(ROW, {**ROW, "id": "B", "batch": "two"}, {**ROW, "id": "C", "kind": "fit"}))
    result = validate((path,))
    assert [row.line for row in result.rows] == [2, 3, 4]
    assert result.rows[1].reason is not None
    assert result.rows[1].reason.startswith("wrong row: column batch = 'two'")
    assert "kind 'fit'" in (result.rows[2].reason or "")
    (table,) = [table for table in result.tables() if table.title == "Wrong rows"]
    assert [row.line for row in table.rows] == [3]


def test_rows_without_a_model_are_counted_by_reason() -> None:
    rows = rows_of({"phase": "coffee"}, {"phase": "coffee"})
    summary = validation_of(compare(rows, lambda *_: None)).summary
    assert [(reason.rows, reason.reason) for reason in summary.reasons] == [(2, "not modelled: coffee")]


def test_byte_that_is_not_utf_8_affects_only_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    rows = ({**ROW, "id": f"A-{i}", "settings": f"x{i}"} for i in range(3))
    path.write_bytes(inference_file(*rows).encode().replace(b"x1", b"\xff"))
    first, wrong, last = read(path)
    assert (first.fault, last.fault) == ("", "")
    assert wrong.line == 3
    assert "column settings: has bytes that are not UTF-8" in wrong.fault


def test_optional_columns_may_be_missing_and_unknown_ones_are_ignored() -> None:
    lines = inference_file(ROW).splitlines()
    without = [",".join(line.split(",")[:-1]) for line in lines]  # drops the last column, which is required
    with pytest.raises(BadMeasurements, match="has no column 'group'"):
        list(parse("\n".join(without), "m.csv"))
    columns = lines[0].split(",")
    optional = [columns.index(name) for name in ("spread", "remark_trust", "source_path", "settings", "repeats")]
    without_optional = [",".join(cell for i, cell in enumerate(line.split(",")) if i not in optional) for line in lines]
    (m,) = parse(f"{without_optional[0]},note of mine\n{without_optional[1]},x\n", "m.csv")
    assert (m.fault, m.text("settings"), m.text("note of mine")) == ("", "", "")
    assert m.measured == 800_000


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,024", 1024), ("8192,", 8192), ("1.5", 1.5), (",", None), ("1.2.3", None), ("1,02", None), ("9" * 400, None)],
)
def test_numbers_are_read_from_texts(text: str, number: float | None) -> None:
    assert read_number(text) == number
    assert read_whole(text) == (None if number == 1.5 else number)
