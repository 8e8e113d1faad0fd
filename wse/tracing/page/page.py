"""The page of ``wse view`` as a single file: skeleton, style, scripts, and the data of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import matplotlib as mpl

from wse.reports.page.inline_page import inline_page
from wse.reports.result import Doc, Result
from wse.tracing.page.gather import view_trace
from wse.tracing.page.pack import Packer
from wse_traces.schema import CAUSES, DIRECTIONS, KINDS, PHASES, USES

SCRIPTS: Final = (
    "names.js",
    "data.js",
    "place.js",
    "steering.js",
    "fold.js",
    "wafer/heatmap.js",
    "timeline/lanes.js",
    "quantities.js",
    "placement.js",
    "wafer/sram.js",
    "wafer/map_input.js",
    "wafer/map_axes.js",
    "wafer/map_controls.js",
    "wafer/replay.js",
    "wafer/wafer.js",
    "treemap/squarify.js",
    "treemap/cycle_groups.js",
    "treemap/treemap.js",
    "timeline/lane_steps.js",
    "timeline/tokens.js",
    "timeline/timeline_draw.js",
    "timeline/timeline_input.js",
    "timeline/timeline.js",
    "table.js",
    "steps.js",
    "summary.js",
    "experts.js",
    "page.js",
)
"""Scripts of the page in the order of concatenation. Each uses only those before it."""
COLOUR_MAP: Final = "viridis"


@dataclass(frozen=True, kw_only=True)
class ViewResult(Result):
    """Report of ``wse view``: the page written, its size, and the traces it shows.

    The report is printed as JSON if ``--json`` is specified.
    """

    page: Annotated[str, Doc("path of the page")]
    bytes: Annotated[int, Doc("size of the page", "byte")]
    traces: Annotated[tuple[str, ...], Doc("paths of the traces that the page shows")]


def view_page(paths: list[Path]) -> bytes:
    """Return the UTF-8 HTML page of one trace, or of two traces side by side.

    Raises:
        BadTrace: A trace cannot be read.
    """
    pack = Packer()
    colours: Any = mpl.colormaps[COLOUR_MAP](range(256), bytes=True)
    traces = [view_trace(path, pack) for path in paths]
    data = {
        "traces": traces,
        "blobs": pack.blobs,
        "causes": CAUSES,
        "uses": USES,
        "directions": DIRECTIONS,
        "phases": PHASES,
        "kinds": KINDS,
        "colours": bytes(colours[:, :3].tobytes()).hex(),
    }
    return inline_page(
        "wse.tracing.page",
        scripts=[f"script/{name}" for name in SCRIPTS],
        data=data,
        title=" and ".join(f"{trace['model']} on {trace['wafer']}" for trace in traces),
    )
