"""Tests of `wse explore`: reading CSV files, the contents of the page, and its Pareto front in a browser."""

import json
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import wse
from tests.inspect.page.conftest import browser, wait_for  # noqa: F401
from wse.errors import BadInput
from wse.studies.explore import csv_table
from wse.studies.explore.csv_table import read_csv
from wse.studies.explore.study import A_WAFER, as_html, with_rate_per_wafer

SWEEP = (
    "batch,mapping,error,system_wafers,serving_tokens_per_s_per_user,serving_tokens_per_s,serving_ttft_s\n"
    "1,auto,,2,900,4000,0.08\n8,auto,,1,500,9000,0.2\n8,bands,does not fit,,,,\n"
)
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def data_of(page: bytes) -> dict[str, Any]:
    """Return the JSON data that a page contains."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.decode(), re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def page_of(tmp_path: Path, text: str) -> bytes:
    """Write a CSV file and return the page for it."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    return as_html(path, read_csv(path))


def test_sweep_begins_with_speed_per_user_against_tokens_per_wafer(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, SWEEP))
    columns = {column["name"]: column for column in data["columns"]}
    assert [data["columns"][data[axis]]["name"] for axis in "xy"] == ["serving_tokens_per_s_per_user", A_WAFER]
    assert columns[A_WAFER]["numbers"] == [2000, 9000, None]
    assert [name for name, column in columns.items() if column["axis"]] == ["batch", "mapping"]
    assert (columns["mapping"]["words"], columns["mapping"]["codes"]) == (["auto", "bands"], [0, 0, 1])
    assert {name for name, column in columns.items() if column["less"]} == {"system_wafers", "serving_ttft_s"}
    assert data["rows"] == 3


def test_other_tables_begin_with_their_first_numeric_columns(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, "name,same,p,q\nx,1,1,2\ny,1,3,4\n"))
    assert [data["columns"][data[axis]]["name"] for axis in "xy"] == ["p", "q"]
    assert [column["name"] for column in data["columns"]] == ["name", "p", "q"]
    data = data_of(page_of(tmp_path, "name,other\nx,a\ny,a\n"))
    assert (data["x"], data["y"]) == (0, 0)
    assert b"All rows are the same" in page_of(tmp_path, "a,b\n1,2\n1,2\n")


def test_texts_of_a_table_are_escaped(tmp_path: Path) -> None:
    cell = HOSTILE.replace('"', '""')
    page = page_of(tmp_path, f'"{cell}",same,n\n"{cell}","{cell}",1\nx,"{cell}",2\n').decode()
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert data_of(page.encode())["columns"][0]["name"] == HOSTILE
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'")
    assert not re.findall(r"https?://", page.replace("http://www.w3.org/2000/svg", ""))


def test_table_of_a_comparison_has_tokens_per_wafer(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("wafers,tokens_per_s_per_user,tokens_per_s\n0,1,2\n4,10,20\n")
    *_, rate = with_rate_per_wafer(read_csv(path))
    assert (rate.name, rate.numbers) == (A_WAFER, (None, 5.0))


def written_csv(tmp_path: Path, text: str | bytes) -> Path:
    """Write a CSV file and return its path."""
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_are_numbers_or_words(tmp_path: Path) -> None:
    text = '\ufeffa,b,c,d\r\n1,x,,1e-3\r\n\r\n-2.5,"y,\n""z""",3,\r\n'
    a, b, c, d = read_csv(written_csv(tmp_path, text))
    assert (a.numbers, c.numbers, d.numbers) == ((1, -2.5), (None, 3), (1e-3, None))
    assert (b.numbers, b.words) == (None, ("x", 'y,\n"z"'))
    assert b.distinct == ["x", 'y,\n"z"']


@pytest.mark.parametrize("cell", ["nan", "inf", "1e999", "0x10", "1_000", "١", "true", "1 2"])
def test_cell_that_is_no_finite_number_makes_a_column_of_words(tmp_path: Path, cell: str) -> None:
    first, _ = read_csv(written_csv(tmp_path, f"a,b\n1,2\n{cell},3\n"))
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
def test_bad_table_is_a_one_line_error(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read_csv(written_csv(tmp_path, text))
    line = str(error.value)
    assert message in line
    assert "t.csv" in line
    assert line.isprintable()


def test_table_that_is_too_large_for_a_page_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written_csv(tmp_path, "a,b\n" + "1,2\n" * 5)
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


ROWS = [(random.Random(at).randrange(12), random.Random(~at).randrange(12), at % 5) for at in range(80)]
COLUMNS = ("across", "up", "batch")


def front_of(rows: list[tuple[int, int, int]], *, x_less: bool, y_less: bool) -> list[tuple[int, int]]:
    """Return the sorted (x, y) pairs on the Pareto front; `x_less` and `y_less` say whether less is better."""
    points = [(-x if x_less else x, -y if y_less else y) for x, y, _ in rows]
    return sorted(
        row[:2]
        for row, point in zip(rows, points, strict=True)
        if not any(o[0] >= point[0] and o[1] >= point[1] and o != point for o in points)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x_less", "y_less", "batches"), [(False, False, (0, 4)), (True, False, (2, 3)), (True, True, (0, 4))]
)
def test_front_is_that_of_an_exhaustive_search(
    browser: Any,  # noqa: F811
    tmp_path: Path,
    x_less: bool,  # noqa: FBT001
    y_less: bool,  # noqa: FBT001
    batches: tuple[int, int],
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("\n".join([",".join(COLUMNS), *(",".join(map(str, row)) for row in ROWS)]))
    page = Path(wse.explore(table).page)
    state = {"x": 0, "y": 1, "xless": x_less, "yless": y_less, "filters": [2], "ranges": {"2": batches}}
    browser.get(f"{page.as_uri()}#{quote(json.dumps(state))}")
    kept = [row for row in ROWS if batches[0] <= row[2] <= batches[1]]
    wanted = front_of(kept, x_less=x_less, y_less=y_less)
    count = wait_for(browser, "return document.getElementById('count').textContent")
    assert count == f"{len(kept)} of {len(ROWS)} rows, {len(wanted)} on the Pareto front"
    script = "return [...document.querySelectorAll('#front tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    shown = sorted((int(cells[0]), int(cells[1])) for cells in browser.execute_script(script))
    assert shown == wanted
