"""Tables as Markdown: what is pasted reads as the table, and no text of it is markup."""

from __future__ import annotations

from wse.reports.markdown import tables_as_markdown
from wse.reports.table import Column, Table, number, pair_table


def test_table_reads_as_a_table() -> None:
    columns = (Column(key="name", title="with"), number("speed", "tokens/s", best="largest"), number("none", "none"))
    rows = [{"name": "a", "speed": 1234}, {"name": "b", "speed": 7}]
    table = Table(columns=columns, rows=rows, title="Speeds", note="of two", footer=[("*", "best")])
    assert tables_as_markdown([table, Table(columns=columns, rows=[])]).splitlines() == [
        "**Speeds** of two",
        "",
        "| with | tokens/s | none |",
        "| --- | ---: | ---: |",
        "| a | **1,234** |  |",
        "| b | 7 |  |",
        "",
        "- \\*: best",
    ]


def test_no_text_is_markup() -> None:
    hostile = "a|b\n<img src=x> [x](y) `c` *d* _e_ # f & g \\ h"
    table = Table(columns=(Column(key="name", title="x|y"),), rows=[{"name": hostile}])
    *_, row = tables_as_markdown([table]).splitlines()
    text = row.removeprefix("| ").removesuffix(" |")
    assert "\n" not in text
    for at, character in enumerate(text):
        if character in "|<>[]`*_#&":
            assert text[at - 1] == "\\"
    assert text.replace("\\", "") == hostile.replace("\n", "n").replace("\\", "")


def test_names_and_texts_are_a_list() -> None:
    assert tables_as_markdown([pair_table([("a", "one"), ("", "two")], "T")]) == "**T**\n\n- a: one\n- two\n"
