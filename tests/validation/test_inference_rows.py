"""Rows of the table `inference`: wrong rows have a line and a reason, all others are predicted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.inference_rows import ROW, file_of, rows_of
from wse.studies.validate.measured.measurements import parse
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
        ({"context_min": "9000"}, "context_min = 9000 is larger than context_max = 8192"),
    ],
)
def test_a_wrong_cell_is_the_fault_of_its_row(cells: dict[str, str], fault: str) -> None:
    first, wrong, last = rows_of({}, cells, {})
    assert (first.fault, last.fault) == ("", "")
    assert first.measured == last.measured == 800_000
    assert (wrong.line, wrong.measured) == (3, None)
    assert fault in wrong.fault


def test_a_broken_record_costs_only_its_own_row() -> None:
    lines = file_of(*({**ROW, "id": f"A-{i}", "settings": "x"} for i in range(4))).splitlines(keepends=True)
    lines[2] = lines[2].replace(",x,", ',"x,')  # a quote that nothing closes
    lines[3] = "A-9,qwen3-4b\n"
    rows = list(parse("".join(lines), "m.csv"))
    assert [row.line for row in rows] == [2, 3, 4, 5]
    assert [bool(row.fault) for row in rows] == [False, True, True, False]
    assert "has 2 cells" in rows[2].fault


def test_lines_and_reasons_of_wrong_rows_are_in_the_result_and_in_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(file_of(ROW, {**ROW, "id": "B", "batch": "two"}, {**ROW, "id": "C", "kind": "fit"}))
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
