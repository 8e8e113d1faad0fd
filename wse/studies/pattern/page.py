"""The page of patterns as one file: the tables, and the wavelets of small cases on their way along a line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from wse.hardware.spec import WaferSpec
from wse.reports.colours import style_variables
from wse.reports.html_table import table_as_html
from wse.reports.inline_page import inline_page
from wse.reports.terminal import plural
from wse.studies.pattern.animation import MOST_HOPS, MOST_PES, Animation
from wse.studies.pattern.result import PatternResult


def as_html(result: PatternResult, animations: Sequence[Animation], wafer: WaferSpec) -> bytes:
    """The page of a result, UTF-8, with what is played of it."""
    folder = files("wse.studies.pattern")
    script, style, template = (
        (folder / name).read_text(encoding="utf-8") for name in ("pattern.js", "style.css", "page.html.j2")
    )
    left_out = len(result.cases) - len(result.faults) - len(animations)
    limits = f"at most {MOST_PES} PEs and {MOST_HOPS:,} hops of words in a case"
    return inline_page(
        template,
        script=script,
        style=style_variables() + style,
        data={
            "hop_cycles": wafer.hop_cycles,
            "ramp_cycles": wafer.ramp_cycles,
            "animations": [animation.to_dict() for animation in animations],
        },
        title=f"Patterns on a line of {result.machine}",
        tables=[table_as_html(table) for table in result.tables(detail=True)],
        faults=result.faults,
        names=[animation.to_dict()["name"] for animation in animations],
        left_out=f"{plural(left_out, 'case')} of the tables not played: {limits}" if left_out else "",
    )
