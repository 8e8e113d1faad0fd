"""Tests of tables as terminal text, HTML and Markdown."""

import io

import pytest

from wse.reports.number_text import percent
from wse.reports.page.html_table import tables_as_html
from wse.reports.table import Column, Table, more_rows, number, pair_table, tables_as_markdown
from wse.reports.terminal import console_on
from wse.reports.terminal_table import print_tables


def printed_lines(monkeypatch: pytest.MonkeyPatch, *tables: Table, width: int = 40) -> list[str]:
    """Print tables on a terminal of ``width`` columns, and return the lines."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    print_tables(console_on(stream), tables)
    return stream.getvalue().splitlines()


def test_values_are_formatted_and_missing_ones_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column(key="name", title="name"), number("share", "share", percent), number("words", "words"))
    rows = [{"name": "a\n", "share": 0.5, "words": 12345}, {"name": "b"}]
    assert printed_lines(monkeypatch, Table(columns=columns, rows=rows)) == [
        "  name   share   words",
        "  a\\n   50.0 %  12,345",
        "  b",
    ]


def test_footer_is_printed_only_below_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    footer = more_rows(range(5), 2)
    assert more_rows(range(2), 2) == ()
    columns = (Column(key="name"),)
    with_row = Table(columns=columns, rows=[{"name": "a"}], title="Some", footer=footer)
    without_rows = Table(columns=columns, rows=[], title="None", footer=footer)
    assert printed_lines(monkeypatch, with_row, without_rows) == [
        "",
        "Some",
        "  a",
        "  ...  and 3 more; --json has them all",
        "",
        "None",
    ]


@pytest.mark.parametrize(("width", "shown"), [(100, 10), (160, 12)])
def test_tables_but_no_texts_use_the_width_of_a_wide_terminal(
    width: int, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = tuple(number(f"number{index:02}", f"number{index:02}", str, priority=1) for index in range(12))
    table = Table(columns=columns, rows=[{column.key: 1 for column in columns}], footer=[("note", "word " * 40)])
    heading, _, *footer = printed_lines(monkeypatch, table, width=width)
    assert heading.split() == [column.title for column in columns[:shown]]
    assert ("omitted" in " ".join(footer)) == (shown < len(columns))
    assert 90 < max(map(len, footer)) <= 100


def test_column_with_a_width_truncates_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column(key="source", width=6), number("rows", width=4))
    assert printed_lines(monkeypatch, Table(columns=columns, rows=[{"source": "abcdefgh", "rows": 1}])) == [
        "  abcde…     1"
    ]


def test_pair_table_folds_texts_but_not_names(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed_lines(monkeypatch, pair_table([("trace", "x" * 50)]))
    assert lines == [f"  trace  {'x' * 31}", f"         {'x' * 19}"]


def test_html_cells_are_escaped_and_have_the_class_of_their_column() -> None:
    columns = (
        Column(key="name", title="a < b", doc="which", wraps=True),
        Column(key="speed", title="speed", numeric=True, best="largest"),
    )
    rows = [{"name": "<script>", "speed": 3}, {"name": "&", "speed": 5}]
    html = tables_as_html([Table(columns=columns, rows=rows, title="Two", note="of <many>")])
    assert "<caption>Two <small>of &lt;many&gt;</small></caption>" in html
    assert '<th scope="col" class="prose" title="which">a &lt; b</th><th scope="col" class="number">speed</th>' in html
    assert '<tr><td class="prose">&lt;script&gt;</td><td class="number">3</td></tr>' in html
    assert '<td class="number"><b>5</b></td>' in html


def test_html_footer_spans_all_columns() -> None:
    columns = (Column(key="name"), Column(key="speed"))
    html = tables_as_html(
        [Table(columns=columns, rows=[{"name": "x", "speed": 1}], footer=[("...", "and 3 > 2 more")])]
    )
    assert '<tfoot><tr><td class="prose" colspan="2">... and 3 &gt; 2 more</td></tr></tfoot>' in html


def test_hidden_columns_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column(key="name", title="name"), number("speed", "speed", priority=1))
    footer = [("speed", "of one user"), ("*", "best")]
    for length, is_shown in ((10, True), (36, False)):  # the terminal has 40 columns
        table = Table(columns=columns, rows=[{"name": "n" * length, "speed": 1}], footer=footer)
        text = " ".join(printed_lines(monkeypatch, table))
        assert ("of one user" in text) == is_shown
        assert "best" in text


def test_html_table_without_titles_has_no_head() -> None:
    assert "<thead>" not in tables_as_html([Table(columns=(Column(key="name"),), rows=[{"name": "x"}])])


def test_markdown_table_has_title_rows_and_footer() -> None:
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


def test_markdown_escapes_all_markup() -> None:
    hostile = "a|b\n<img src=x> [x](y) `c` *d* _e_ # f & g \\ h"
    table = Table(columns=(Column(key="name", title="x|y"),), rows=[{"name": hostile}])
    *_, row = tables_as_markdown([table]).splitlines()
    text = row.removeprefix("| ").removesuffix(" |")
    assert "\n" not in text
    for position, character in enumerate(text):
        if character in "|<>[]`*_#&":
            assert text[position - 1] == "\\"
    assert text.replace("\\", "") == hostile.replace("\n", "n").replace("\\", "")


def test_markdown_of_a_pair_table_is_a_list() -> None:
    assert tables_as_markdown([pair_table([("a", "one"), ("", "two")], "T")]) == "**T**\n\n- a: one\n- two\n"
