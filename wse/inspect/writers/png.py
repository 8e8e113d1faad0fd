"""Heat maps of wafers as PNG images: a PE is at least a pixel, row 0 is at the top."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from wse.inspect.export.maps import WaferMap
from wse.inspect.query.stages import Stage
from wse.report.terminal import shown

DPI: Final = 100
LARGEST: Final = 900  # pixels of the longer side of a mesh that is drawn larger than a pixel a PE
LEAST: Final = 60  # pixels of the shorter side of a mesh
LEFT, RIGHT, TOP, BOTTOM = 85, 165, 75, 60  # pixels around the mesh
WIDTH: Final = 720  # at least, so that titles have room
LONGEST_TITLE: Final = 90
MOST_NAMED: Final = 64  # outlines with a number in them


def write_pngs(
    maps: Iterable[WaferMap], title: str, folder: Path, count: int, heard: Callable[[int, int, str], None]
) -> list[str]:
    """Draw each map into a file of its own; the names of the files. ``title`` says what run it is."""
    names = []
    for number, wafer_map in enumerate(maps):
        names.append(f"wafer-{wafer_map.wafer}-{wafer_map.kind}.png")
        heard(number, count, names[-1])
        _draw(wafer_map, title, folder / names[-1])
    return names


def _draw(wafer_map: WaferMap, title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows, cols = wafer_map.values.shape
    scale = max(1, LARGEST // max(rows, cols))
    height, width = max(LEAST, rows * scale), max(LEAST, cols * scale)
    all_height, all_width = height + TOP + BOTTOM, max(WIDTH, width + LEFT + RIGHT)
    figure = Figure(figsize=(all_width / DPI, all_height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((LEFT / all_width, BOTTOM / all_height, width / all_width, height / all_height))
    image = axes.imshow(
        wafer_map.values, cmap="viridis", vmin=0, vmax=wafer_map.most or max(1, int(wafer_map.values.max(initial=0))),
        interpolation="nearest", aspect="auto", origin="upper",
    )  # fmt: skip
    axes.set(xlabel="column of PEs", ylabel="row of PEs")
    for side in axes.spines.values():
        side.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    about = f"{_short(title)}\nwafer {wafer_map.wafer}: {wafer_map.title}"
    axes.set_title(about, fontsize=10, loc="left", parse_math=False)
    bar = figure.add_axes(((LEFT + width + 15) / all_width, BOTTOM / all_height, 18 / all_width, height / all_height))
    scale_bar = figure.colorbar(image, cax=bar)
    bar.set_title(wafer_map.unit, fontsize=10, loc="left")
    scale_bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    for index, stage in wafer_map.outlines.items():
        _outline(axes, stage, f"stage {index}" if len(wafer_map.outlines) <= MOST_NAMED else "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of letters that the font lacks, which are drawn as boxes
        figure.savefig(path, metadata={"Software": None})


def _outline(axes: Any, stage: Stage, name: str) -> None:
    """Draw a stage's rectangle, light on dark so that it is seen on every colour, and its name."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    corner = (stage.col - 0.5, stage.row - 0.5)
    for colour, line in (("black", 2.2), ("white", 1.0)):
        axes.add_patch(Rectangle(corner, stage.cols, stage.rows, fill=False, edgecolor=colour, linewidth=line))
    if name:
        effects = [withStroke(linewidth=2, foreground="black")]
        place = (stage.col + stage.cols / 2 - 0.5, stage.row + stage.rows / 2 - 0.5)
        axes.annotate(name, place, color="white", fontsize=8, ha="center", va="center", path_effects=effects)


def _short(text: str) -> str:
    text = shown(text)
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"
