"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from html import escape

from wse.inspect.query.compare import TracesResult
from wse.report.html_table import tables_as_html
from wse.studies.compare.result import CompareResult
from wse.studies.compare.summary import title
from wse.studies.compare.tables import reasons
from wse.studies.compare.traces_summary import changes_tables


def as_html(result: CompareResult) -> bytes:
    """The page of a comparison of models, UTF-8."""
    return _page(
        title(result),
        result.verdict,
        tables_as_html(result.tables()) + "".join(f"<p>{escape(b)}</p>" for _, b in reasons(result.rows)),
    )


def traces_as_html(result: TracesResult) -> bytes:
    """The page of two runs, UTF-8."""
    return _page("Two runs", (), tables_as_html(changes_tables(result)))


def _page(title: str, verdict: tuple[str, ...], tables: str) -> bytes:
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in verdict)
    return f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>{said}{tables}".encode(errors="replace")
