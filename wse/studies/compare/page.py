"""A comparison as one self-contained HTML page: the tables, the plot, what limits each row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import jinja2

from wse.report.terminal import several
from wse.studies.compare.plot import as_png
from wse.studies.compare.table import (
    LEFT,
    NOTES,
    SPEED,
    TRAFFIC,
    TRAFFIC_NOTES,
    limits,
    speed_cells,
    title,
    told_inputs,
    traffic_cells,
)

Report = dict[str, Any]

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { color: #555; font-weight: 600; }
.left { text-align: left; } td.wide { white-space: normal; }
.note { color: #555; font-size: .9rem; }
img { max-width: 100%; height: auto; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p class="note">{{ note }}</p>
{% for sentence in verdict %}<p><strong>{{ sentence }}</strong></p>
{% endfor %}
<img src="data:image/png;base64,{{ plot }}" alt="The numbers of the tables as a plot">
{% for table in tables %}<h2>{{ table.title }}</h2>
<table>
<tr>{% for name in table.header %}<th{% if name in left %} class="left"{% endif %}>{{ name }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr>{% for name, cell in row %}<td{% if name in left %} class="left"{% endif %}>\
{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
<p class="note">{% for name, text in table.notes %}{{ name }}: {{ text }}. {% endfor %}</p>
{% endfor %}
{% for heading, rows in lists if rows %}<h2>{{ heading }}</h2>
<table>
{% for name, text in rows %}<tr><td class="left">{{ name }}</td><td class="left wide">{{ text }}</td></tr>
{% endfor %}</table>
{% endfor %}
</body>
</html>
"""


def as_html(report: Report) -> bytes:
    """The page of a comparison, UTF-8."""
    rows = [row for row in report["rows"] if "reason" not in row]
    return page(
        title=title(report),
        note=", ".join(told_inputs(report["inputs"])),
        verdict=report.get("verdict", []),
        png=as_png(report),
        tables=tables(rows),
        lists=[
            ("What limits a user's tokens, and the users", limits(rows)),
            ("What cannot be", _reasons(report["rows"])),
            ("Assumptions", _assumptions(report["economics"])),
        ],
    )


def page(
    *,
    title: str,
    note: str,
    verdict: Sequence[str],
    png: bytes,
    tables: Sequence[Report],
    lists: Sequence[tuple[str, Sequence[tuple[str, str]]]],
) -> bytes:
    """One page. Every text is escaped; no script runs and nothing is loaded, which the page itself forbids.

    A table has ``title``, ``header``, ``rows`` of (name, cell) and ``notes`` of (name, text).
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    told = environment.from_string(_PAGE).render(
        title=title,
        note=note,
        verdict=verdict,
        plot=base64.b64encode(png).decode(),
        left=LEFT,
        tables=tables,
        lists=lists,
    )
    return told.encode(errors="replace")


def tables(rows: Sequence[Report]) -> list[Report]:
    """The two tables of some rows."""
    return [
        _table("Speed, users and cost", SPEED, speed_cells, rows, NOTES),
        _table("Traffic of a token, and power", TRAFFIC, traffic_cells, rows, TRAFFIC_NOTES),
    ]


def _table(
    name: str,
    header: Sequence[str],
    cells: Callable[[int, Report], tuple[str, ...]],
    rows: Sequence[Report],
    notes: Sequence[tuple[str, str]],
) -> Report:
    told = [list(zip(header, cells(number, row), strict=True)) for number, row in enumerate(rows, start=1)]
    return {"title": name, "header": header, "rows": told, "notes": notes}


def _reasons(rows: Sequence[Report]) -> list[tuple[str, str]]:
    return [(f"{r['mapping']}, {several(r['wafers'], 'wafer')}", r["reason"]) for r in rows if "reason" in r]


def _assumptions(economics: Report) -> list[tuple[str, str]]:
    told = []
    for name, given in economics.items():
        low, high = given.get("range", (given["value"], given["value"]))
        number = f"{given['value']:,g} {given['unit']}, from {low:,g} to {high:,g}, grade {given['grade']}"
        told.append((name.replace("_", " "), f"{number}: {given['source']}"))
    return told
