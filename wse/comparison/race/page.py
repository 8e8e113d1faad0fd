"""The page of a race as one file: the answer grows in a column for each machine, at the machine's pace."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from wse.comparison.race.result import RaceResult
from wse.report.inline_page import inline_page
from wse.report.terminal import seconds

SPEEDS: Final = {0.1: "a tenth", 0.5: "half", 1.0: "as it is"}
"""Speeds that a page offers, in words."""


def as_html(result: RaceResult, pieces: Sequence[str], speed: float) -> bytes:
    """The page of a race, UTF-8, which runs ``speed`` times as fast as it would be until its reader chooses another."""
    folder = files("wse.comparison.race")
    script, style, template = ((folder / name).read_text("utf-8") for name in ("race.js", "style.css", "page.html.j2"))
    data = result.to_dict() | {"pieces": list(pieces), "duration_s": result.duration_s, "speed": f"{speed:g}"}
    lanes = [
        {"name": lane.pace.name, "note": lane.note, "state": f"done after {seconds(lane.done_s)}"}
        for lane in result.lanes
    ]
    words = SPEEDS | ({} if speed in SPEEDS else {speed: f"{speed:g} times"})
    speeds = [(f"{value:g}", words[value]) for value in sorted(words)]
    title = f"{result.model}: {result.tokens:,} tokens behind a prompt of {result.prompt_tokens:,}"
    return inline_page(template, script=script, style=style, data=data, title=title, lanes=lanes, speeds=speeds)
