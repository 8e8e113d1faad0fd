"""Heat maps of wafers as PNG images: a PE is at least a pixel, row 0 is at the top."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from wse.inspect.export.maps import Outline, WaferMap
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
    for number, each in enumerate(maps):
        names.append(f"wafer-{each.wafer}-{each.kind}.png")
        heard(number, count, names[-1])
        _draw(each, title, folder / names[-1])
    return names


def _draw(each: WaferMap, title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows, cols = each.values.shape
    scale = max(1, LARGEST // max(rows, cols))
    height, width = max(LEAST, rows * scale), max(LEAST, cols * scale)
    all_height, all_width = height + TOP + BOTTOM, max(WIDTH, width + LEFT + RIGHT)
    figure = Figure(figsize=(all_width / DPI, all_height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((LEFT / all_width, BOTTOM / all_height, width / all_width, height / all_height))
    image = axes.imshow(
        each.values, cmap="viridis", vmin=0, vmax=each.most or max(1, int(each.values.max(initial=0))),
        interpolation="nearest", aspect="auto", origin="upper",
    )  # fmt: skip
    axes.set(xlabel="column of PEs", ylabel="row of PEs")
    for side in axes.spines.values():
        side.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{_short(title)}\nwafer {each.wafer}: {each.title}", fontsize=10, loc="left", parse_math=False)
    bar = figure.add_axes(((LEFT + width + 15) / all_width, BOTTOM / all_height, 18 / all_width, height / all_height))
    scale_bar = figure.colorbar(image, cax=bar)
    bar.set_title(each.unit, fontsize=10, loc="left")
    scale_bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    for outline in each.outlines:
        _outline(axes, outline, named=len(each.outlines) <= MOST_NAMED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of letters that the font lacks, which are drawn as boxes
        figure.savefig(path, metadata={"Software": None})


def _outline(axes: Any, outline: Outline, *, named: bool) -> None:
    """A stage's rectangle, light on dark so that it is seen on every colour, and its number."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    corner = (outline.col - 0.5, outline.row - 0.5)
    for colour, line in (("black", 2.2), ("white", 1.0)):
        axes.add_patch(Rectangle(corner, outline.cols, outline.rows, fill=False, edgecolor=colour, linewidth=line))
    if named:
        effects = [withStroke(linewidth=2, foreground="black")]
        place = (outline.col + outline.cols / 2 - 0.5, outline.row + outline.rows / 2 - 0.5)
        axes.annotate(
            f"stage {outline.stage}", place, color="white", fontsize=8, ha="center", va="center", path_effects=effects
        )


def _short(text: str) -> str:
    text = shown(text)
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"
