"""The page of ``wse pattern`` as one HTML file: tables, and animations of small cases."""

from __future__ import annotations

from collections.abc import Sequence

from wse.hardware.spec import WaferSpec
from wse.reports.page.html_table import table_as_html
from wse.reports.page.inline_page import inline_page
from wse.reports.terminal import plural
from wse.studies.pattern.animation import MAX_HOPS, MAX_PES, Animation
from wse.studies.pattern.result import PatternResult


def as_html(result: PatternResult, animations: Sequence[Animation], wafer: WaferSpec) -> bytes:
    """Return the HTML page for a comparison of communication patterns, encoded in UTF-8.

    Args:
        result: The comparison.
        animations: The animations to include.
        wafer: The wafer, which provides the hop and ramp cycles for the animations.
    """
    left_out = len(result.cases) - len(result.faults) - len(animations)
    limits = f"at most {MAX_PES} PEs and {MAX_HOPS:,} hops of words in a case"
    return inline_page(
        "wse.studies.pattern",
        scripts=["pattern.js"],
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
