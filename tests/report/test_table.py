"""Tables on a terminal: forms of values, missing ones, lines below the rows, and columns of a width."""

from __future__ import annotations

import io

import pytest

from wse.reports.table import Column, Table, more_rows, number, pair_table
from wse.reports.terminal import console_on, percent
from wse.reports.terminal_table import print_tables


def printed(monkeypatch: pytest.MonkeyPatch, *tables: Table) -> list[str]:
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    print_tables(console_on(stream), tables)
    return stream.getvalue().splitlines()


def test_values_are_written_by_their_form_and_missing_ones_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column(key="name", title="name"), number("share", "share", percent), number("words", "words"))
    rows = [{"name": "a\n", "share": 0.5, "words": 12345}, {"name": "b"}]
    assert printed(monkeypatch, Table(columns=columns, rows=rows)) == [
        "  name   share   words",
        "  a\\n   50.0 %  12,345",
        "  b",
    ]


def test_lines_stand_below_rows_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    footer = more_rows(range(5), 2)
    assert more_rows(range(2), 2) == ()
    columns = (Column(key="name"),)
    some = Table(columns=columns, rows=[{"name": "a"}], title="Some", footer=footer)
    none = Table(columns=columns, rows=[], title="None", footer=footer)
    assert printed(monkeypatch, some, none) == ["", "Some", "  a", "  ...  and 3 more; --json has them all", "", "None"]


def test_column_of_a_width_cuts_texts_off(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column(key="source", width=6), number("rows", width=4))
    assert printed(monkeypatch, Table(columns=columns, rows=[{"source": "abcdefgh", "rows": 1}])) == ["  abcde…     1"]


def test_long_texts_of_pairs_fold_and_short_names_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, pair_table([("trace", "x" * 50)]))
    assert lines == [f"  trace  {'x' * 31}", f"         {'x' * 19}"]
