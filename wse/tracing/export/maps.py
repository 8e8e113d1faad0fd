"""Heat maps of wafers as PNG images: a value for each PE, and the outlines of the stages."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.errors import BadTrace, UnknownName
from wse.reports.terminal import printable
from wse.tracing.query.places.stages import Stage, busy_cycles, link_words, read_stages, sram_bytes
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import DIRECTIONS, USES

KINDS: Final = ("sram", "busy", "links", *DIRECTIONS)
_PLANES: Final = {"sram": "sram/bytes_per_pe", "busy": "pe/busy_cycles"}
_LINKS: Final = "links/words"

DPI: Final = 100
MAX_SIDE_PX: Final = 900  # of the longer side of a mesh, unless it has more PEs than that
MIN_SIDE_PX: Final = 60  # of either side of a mesh
LEFT, RIGHT, TOP, BOTTOM = 85, 165, 75, 60  # pixels around the mesh
MIN_WIDTH_PX: Final = 720  # of the picture, so that titles have room
MAX_TITLE_LENGTH: Final = 90
MAX_LABELLED_STAGES: Final = 64  # with more outlines than this, none is labelled


@dataclass(frozen=True, slots=True, eq=False)
class WaferMap:
    """Heat map of one wafer, with a value for each PE.

    Attributes:
        kind: What the map shows (one of ``KINDS``): SRAM, busy cycles, or words on links.
        wafer: Index of the wafer.
        title: Description of the values.
        unit: Unit of the values.
        values: int64 ``[row, col]``.
        max_value: Largest possible value, or 0 if there is no limit.
        outlines: Stages on the wafer, keyed by index. Their rectangles are drawn into the map.
            Empty for link maps of a wafer with dead PEs: their rows and columns are those of the
            physical wafer, but stages have rows and columns of the smaller mesh that programs see.
    """

    kind: str
    wafer: int
    title: str
    unit: str
    values: Array
    max_value: int
    outlines: Mapping[int, Stage]


def check_maps(kinds: tuple[str, ...]) -> None:
    """Check that all requested kinds of map exist.

    Raises:
        UnknownName: A kind does not exist.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("picture", kind, KINDS, place="--what")


def map_kinds(trace: Trace, kinds: tuple[str, ...]) -> list[str]:
    """Return the map kinds to draw: the requested kinds, or all kinds for which the trace has data.

    Args:
        trace: Trace to draw maps of.
        kinds: Requested kinds; empty for all.

    Raises:
        BadTrace: A requested kind was not recorded, or no kind was. Words on links and busy cycles
            are recorded only when a run is complete.
    """
    map_names: list[str] = [kind for kind in KINDS if kind in kinds] or [
        kind for kind in KINDS if trace.rows(_plane_of(kind))
    ]
    missing = [kind for kind in map_names if not trace.rows(_plane_of(kind))]
    if missing or not map_names:
        state = "" if trace.complete else ", whose run was not completed"
        reason = f"--what {', '.join(missing)}: not recorded" if missing else "nothing to draw"
        raise BadTrace(f"{reason} in {trace.path}{state}; choose another, or run again to the end")
    return map_names


def wafer_maps(trace: Trace, kinds: list[str]) -> Iterator[WaferMap]:
    """Yield a map of each requested kind for each wafer.

    Words on links can be drawn for one direction or summed over all directions (kind ``links``).

    Args:
        trace: Trace with data for these kinds.
        kinds: Map kinds to draw, from ``KINDS``.

    Raises:
        TraceError: The trace is damaged.
    """
    stages = read_stages(trace)
    for wafer in range(trace.header.wafers):
        outlines = {index: stage for index, stage in enumerate(stages) if stage.wafer == wafer}
        for kind in kinds:
            if wafer < trace.rows(_plane_of(kind)):
                on_fabric = kind not in _PLANES and "defects" in trace.header.options
                yield WaferMap(kind, wafer, *_values(trace, kind, wafer), {} if on_fabric else outlines)


def write_pngs(
    maps: Iterable[WaferMap], title: str, folder: Path, count: int, on_progress: Callable[[int, int, str], None]
) -> list[str]:
    """Draw each map to its own PNG file, and return the file names.

    A PE is at least one pixel wide and high.

    Args:
        maps: Maps to draw.
        title: Description of the run, written above each map.
        folder: Folder for the files.
        count: Number of maps, for the progress report.
        on_progress: Function called before each map with its index, ``count`` and the file name.
    """
    names = []
    for number, wafer_map in enumerate(maps):
        names.append(f"wafer-{wafer_map.wafer}-{wafer_map.kind}.png")
        on_progress(number, count, names[-1])
        _draw(wafer_map, title, folder / names[-1])
    return names


def _plane_of(kind: str) -> str:
    """Return the path of the trace dataset with the values of a kind of heat map."""
    return _PLANES.get(kind, _LINKS)


def _values(trace: Trace, kind: str, wafer: int) -> tuple[str, str, Array, int]:
    """Return the values of a map and their description.

    The trace must have data for this kind of map.

    Returns:
        Title, unit, values ``[row, col]``, and the largest possible value (0 if there is no limit).
    """
    if kind == "sram":
        uses = np.stack(list(sram_bytes(trace, wafer).values())).astype(np.int64)
        size, free = int(uses.sum(axis=0).max(initial=0)), uses[USES.index("free")]
        return f"SRAM in use, of {size:,} bytes in a PE", "bytes", uses.sum(axis=0) - free, size
    if kind == "busy":
        busy = busy_cycles(trace, wafer)
        assert busy is not None
        return "busy cycles over the run", "cycles", busy, 0
    words = link_words(trace, wafer)
    if kind == "links":
        total = np.sum(list(words.values()), axis=0)
        return "words that leave on all four links, over the run (wavelet-hops)", "words", total, 0
    return f"words that leave to the {kind}, over the run", "words", words[kind], 0


def _draw(wafer_map: WaferMap, title: str, path: Path) -> None:
    """Draw a heat map with its colour scale and stage outlines, and save it as a PNG file.

    Small meshes are enlarged. A PE is at least one pixel wide and high.

    Args:
        wafer_map: The map.
        title: Description of the run, written above the map.
        path: File to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows, cols = wafer_map.values.shape
    scale = max(1, MAX_SIDE_PX // max(rows, cols))
    height, width = max(MIN_SIDE_PX, rows * scale), max(MIN_SIDE_PX, cols * scale)
    all_height, all_width = height + TOP + BOTTOM, max(MIN_WIDTH_PX, width + LEFT + RIGHT)
    figure = Figure(figsize=(all_width / DPI, all_height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((LEFT / all_width, BOTTOM / all_height, width / all_width, height / all_height))
    max_value = wafer_map.max_value or max(1, int(wafer_map.values.max(initial=0)))
    image = axes.imshow(
        wafer_map.values, cmap="viridis", vmin=0, vmax=max_value,
        interpolation="nearest", aspect="auto", origin="upper",
    )  # fmt: skip
    axes.set(xlabel="column of PEs", ylabel="row of PEs")
    for side in axes.spines.values():
        side.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    heading = f"{_short_title(title)}\nwafer {wafer_map.wafer}: {wafer_map.title}"
    axes.set_title(heading, fontsize=10, loc="left", parse_math=False)
    bar = figure.add_axes(((LEFT + width + 15) / all_width, BOTTOM / all_height, 18 / all_width, height / all_height))
    scale_bar = figure.colorbar(image, cax=bar)
    bar.set_title(wafer_map.unit, fontsize=10, loc="left")
    scale_bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    for index, stage in wafer_map.outlines.items():
        _outline(axes, stage, f"stage {index}" if len(wafer_map.outlines) <= MAX_LABELLED_STAGES else "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks are drawn as boxes
        figure.savefig(path, metadata={"Software": None})


def _outline(axes: Any, stage: Stage, name: str) -> None:
    """Draw a stage's rectangle and name in white with black edges.

    This makes them visible on every colour of the heat map.
    """
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    corner = (stage.col - 0.5, stage.row - 0.5)
    for colour, line in (("black", 2.2), ("white", 1.0)):
        axes.add_patch(Rectangle(corner, stage.cols, stage.rows, fill=False, edgecolor=colour, linewidth=line))
    if name:
        effects = [withStroke(linewidth=2, foreground="black")]
        place = (stage.col + stage.cols / 2 - 0.5, stage.row + stage.rows / 2 - 0.5)
        axes.annotate(name, place, color="white", fontsize=8, ha="center", va="center", path_effects=effects)


def _short_title(text: str) -> str:
    """Return a title without control characters, truncated to ``MAX_TITLE_LENGTH`` characters."""
    text = printable(text)
    return text if len(text) <= MAX_TITLE_LENGTH else text[: MAX_TITLE_LENGTH - 1] + "…"
