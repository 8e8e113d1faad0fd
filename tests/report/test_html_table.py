"""Tables as HTML: texts escaped, numbers at the right, the best marked."""

from __future__ import annotations

from wse.reports.page.html_table import tables_as_html
from wse.reports.table import Column, Table


def test_cells_are_escaped_marked_and_of_their_kind() -> None:
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


def test_lines_below_the_rows_are_as_wide_as_the_table() -> None:
    columns = (Column(key="name"), Column(key="speed"))
    html = tables_as_html(
        [Table(columns=columns, rows=[{"name": "x", "speed": 1}], footer=[("...", "and 3 > 2 more")])]
    )
    assert '<tfoot><tr><td class="prose" colspan="2">... and 3 &gt; 2 more</td></tr></tfoot>' in html


def test_table_without_titles_has_no_head() -> None:
    assert "<thead>" not in tables_as_html([Table(columns=(Column(key="name"),), rows=[{"name": "x"}])])
