"""HTML page of a serving simulation: verdict, tables, and plots of the queue over time."""

from __future__ import annotations

from typing import Any, Final

from wse.reports.page.html_table import page_table
from wse.reports.page.inline_page import inline_page
from wse.serving.simulation.statistics import levels
from wse.studies.serve_sim.study import Service

POINTS: Final = 600
PANELS: Final = (
    ("Requests over time", "requests", (("waiting", "waiting"), ("reading", "being read"), ("answering", "answered"))),
    ("KV cache over time", "tokens", (("kv_tokens", "taken"),)),
)
"""For each plot: heading, unit, and the plotted quantities with their names."""


def as_html(service: Service) -> bytes:
    """Build the HTML page of a serving simulation, with tables and plots, encoded in UTF-8."""
    result = service.result
    return inline_page(
        "wse.studies.serve_sim.page",
        scripts=["serve.js"],
        data={"panels": _panels(service), "tables": [page_table(table) for table in result.tables()[1:]]},
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
