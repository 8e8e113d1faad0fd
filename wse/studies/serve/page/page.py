"""The page of a simulation as one file: the verdict, tables, and the queue over time with tooltips."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from wse.reports.colours import style_variables
from wse.reports.inline_page import inline_page
from wse.reports.table import Table
from wse.serving.simulation.statistics import levels
from wse.studies.serve.study import Service

POINTS: Final = 600
SHARED: Final = ("script/format.js", "script/elements.js")
"""Scripts of the page of a trace that this page uses too."""
PANELS: Final = (
    ("Requests over time", "requests", (("waiting", "waiting"), ("reading", "being read"), ("answering", "answered"))),
    ("KV cache over time", "tokens", (("kv_tokens", "taken"),)),
)
"""Heading, unit, and the levels that are drawn with their names."""


def as_html(service: Service) -> bytes:
    """The page of a service, UTF-8."""
    result = service.result
    shared, own = files("wse.tracing.page"), files("wse.studies.serve.page")
    scripts = [*(shared / name for name in SHARED), own / "serve.js"]
    styles = [shared / "style.css", own / "style.css"]
    return inline_page(
        (own / "page.html.j2").read_text(encoding="utf-8"),
        script="\n".join(script.read_text(encoding="utf-8") for script in scripts),
        style=style_variables() + "\n".join(style.read_text(encoding="utf-8") for style in styles),
        data={"panels": _panels(service), "tables": [_table(table) for table in result.tables()[1:]]},
        title=result.title,
        verdict=result.verdict,
        inputs=[(name.replace("_", " "), str(value)) for name, value in result.inputs.items()],
    )


def _panels(service: Service) -> list[dict[str, Any]]:
    if service.outcome is None:
        return []
    over_time = levels(service.outcome, POINTS)
    return [
        {
            "title": title,
            "unit": unit,
            "time_s": over_time.time_s,
            "series": [{"name": name, "values": getattr(over_time, level)} for level, name in series],
        }
        for title, unit, series in PANELS
    ]


def _table(table: Table) -> dict[str, Any]:
    """A table as the script draws it: plain texts."""
    return {
        "title": table.title,
        "note": table.note,
        "header": [column.title for column in table.columns],
        "numeric": [at for at, column in enumerate(table.columns) if column.numeric],
        "rows": [[str(column.text(row)) for column in table.columns] for row in table.rows],
    }
