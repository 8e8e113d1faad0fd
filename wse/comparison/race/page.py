"""The page of a race as one file: the answer grows in a column for each machine, at the machine's pace."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from wse.comparison.race.result import RaceResult
from wse.report.inline_page import inline_page
from wse.report.terminal import seconds


def as_html(result: RaceResult, pieces: Sequence[str], speed: float) -> bytes:
    """The page of a race, UTF-8; it begins at ``speed`` where the page offers that, else as fast as it is."""
    folder = files("wse.comparison.race")
    script, style, template = ((folder / name).read_text("utf-8") for name in ("race.js", "style.css", "page.html.j2"))
    data = result.to_dict() | {"pieces": list(pieces), "duration_s": result.duration_s, "speed": speed}
    lanes = [
        {"name": lane.pace.name, "note": lane.note, "state": f"done after {seconds(lane.done_s)}"}
        for lane in result.lanes
    ]
    title = f"{result.model}: {result.tokens:,} tokens behind a prompt of {result.prompt_tokens:,}"
    return inline_page(template, script=script, style=style, data=data, title=title, lanes=lanes)
