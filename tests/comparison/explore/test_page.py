"""The page of a table: what it starts with, what it holds, and that no text of a table is more than text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import wse
from wse.studies.explore.csv_table import read_csv
from wse.studies.explore.study import A_WAFER, as_html, with_rate_a_wafer

SWEEP = (
    "batch,mapping,error,system_wafers,serving_tokens_per_s_per_user,serving_tokens_per_s,serving_ttft_s\n"
    "1,auto,,2,900,4000,0.08\n8,auto,,1,500,9000,0.2\n8,bands,does not fit,,,,\n"
)
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def data_of(page: bytes) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.decode(), re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def page_of(tmp_path: Path, text: str) -> bytes:
    path = tmp_path / "t.csv"
    path.write_text(text)
    return as_html(path, read_csv(path))


def test_sweep_begins_with_a_users_tokens_against_a_wafers(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, SWEEP))
    columns = {column["name"]: column for column in data["columns"]}
    assert [data["columns"][data[axis]]["name"] for axis in "xy"] == ["serving_tokens_per_s_per_user", A_WAFER]
    assert columns[A_WAFER]["numbers"] == [2000, 9000, None]
    assert [name for name, column in columns.items() if column["axis"]] == ["batch", "mapping"]
    assert (columns["mapping"]["words"], columns["mapping"]["codes"]) == (["auto", "bands"], [0, 0, 1])
    assert {name for name, column in columns.items() if column["less"]} == {"system_wafers", "serving_ttft_s"}
    assert data["rows"] == 3


def test_another_table_begins_with_its_first_numbers(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, "name,same,p,q\nx,1,1,2\ny,1,3,4\n"))
    assert [data["columns"][data[axis]]["name"] for axis in "xy"] == ["p", "q"]
    assert [column["name"] for column in data["columns"]] == ["name", "p", "q"]
    data = data_of(page_of(tmp_path, "name,other\nx,a\ny,a\n"))
    assert (data["x"], data["y"]) == (0, 0)
    assert b"All rows are the same" in page_of(tmp_path, "a,b\n1,2\n1,2\n")


def test_no_text_of_a_table_is_more_than_text(tmp_path: Path) -> None:
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


def test_from_python_the_page_lies_beside_the_table(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(SWEEP)
    assert Path(wse.explore(table).page) == tmp_path / "t.html"


def test_table_of_a_comparison_has_tokens_of_a_wafer_too(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("wafers,tokens_per_s_per_user,tokens_per_s\n0,1,2\n4,10,20\n")
    *_, rate = with_rate_a_wafer(read_csv(path))
    assert (rate.name, rate.numbers) == (A_WAFER, (None, 5.0))
