"""The page put together: skeleton, style and script from this package, what a trace says as data beside them."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2
import matplotlib as mpl

from wse.inspect.page.gather import view_trace
from wse.inspect.page.pack import Packer
from wse.report.as_json import Report, as_json
from wse.report.colours import style_variables
from wse_traces.schema import CAUSES, DIRECTIONS, KINDS, PHASES, USES

SCRIPTS: Final = (
    "format.js",
    "data.js",
    "elements.js",
    "heatmap.js",
    "quantities.js",
    "placement.js",
    "sram.js",
    "map_input.js",
    "wafer.js",
    "squarify.js",
    "treemap.js",
    "lanes.js",
    "lane_steps.js",
    "tokens.js",
    "timeline_draw.js",
    "timeline.js",
    "table.js",
    "steps.js",
    "summary.js",
    "experts.js",
    "page.js",
)
"""In this order they are one module; each uses only what stands before it."""
COLOUR_MAP: Final = "viridis"


def view_page(paths: list[Path]) -> bytes:
    """The page of one trace, or of two beside each other, UTF-8.

    Raises:
        BadTrace: one cannot be read.
    """
    pack = Packer()
    traces = [view_trace(path, pack) for path in paths]
    script = "\n".join(_text(f"script/{name}") for name in SCRIPTS)
    style = style_variables() + _text("style.css")
    data = {
        "traces": traces,
        "blobs": pack.blobs,
        "causes": CAUSES,
        "uses": USES,
        "directions": DIRECTIONS,
        "phases": PHASES,
        "kinds": KINDS,
        "colours": _colours(),
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(_text("page.html.j2")).render(
        title=" and ".join(f"{trace['model']} on {trace['wafer']}" for trace in traces),
        script=script,
        script_digest=_digest(script),
        style=style,
        style_digest=_digest(style),
        data=_embedded(data),
    )
    return page.encode(errors="replace")


def _embedded(data: Report) -> str:
    """JSON that no text in it can end: within a script element only ``<`` can."""
    return as_json(data).replace("<", "\\u003c")


def _text(name: str) -> str:
    return (files("wse.inspect.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a content security policy allows an inline element by (W3C CSP level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _colours() -> str:
    """256 colours of a perceptually even scale that the colour-blind can read, as hexadecimal digits."""
    table: Any = mpl.colormaps[COLOUR_MAP](range(256), bytes=True)
    return bytes(table[:, :3].tobytes()).hex()
