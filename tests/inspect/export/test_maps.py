"""Pictures of wafers: a PE is a square of pixels of the colour of its number, row 0 at the top."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image

from tests.inspect.runs import export
from tests.traces.conftest import HEADER
from wse.tracing.export import maps
from wse_traces import TraceWriter

ROWS, COLS = 7, 5


def trace_of(path: Path, rows: int, cols: int, **options: Any) -> Path:
    header = replace(HEADER, rows=rows, cols=cols, wafers=1, options=options, model="$x_$ <b>\n")
    at = np.arange(rows * cols).reshape(rows, cols)
    with TraceWriter(path, header) as trace:
        place = {"wafer": [0], "row": [1], "col": [1], "rows": [2], "cols": [2], "first_layer": [0], "last_layer": [0]}
        trace.append("stage", {**place, "stage_bytes": np.zeros((1, 6), int)})
        trace.append_plane("links/words", np.stack([at * 0, at, 3 * at[::-1], 5 * at]))
        trace.append_plane("pe/busy_cycles", at + 2**40)
        used = np.stack([at, at, at * 0, at * 0, at * 0, 1000 - 2 * at])
        trace.append_plane("sram/bytes_per_pe", used)
        trace.write_summary({})
    return path


def draw(trace: Path, out: Path, what: str | None = None) -> dict[str, Any]:
    export(trace, "png", out, what=what)
    return {path.stem: image.imread(path) for path in sorted(out.iterdir())}


def pixel(picture: Any, row: int, col: int, rows: int, cols: int) -> Any:
    """The colour of a PE, off its middle, where a stage may be named."""
    scale = max(1, maps.LARGEST // max(rows, cols))
    y = maps.TOP + int((row + 0.25) * scale)
    return picture[y, maps.LEFT + int((col + 0.25) * scale), :3]


@pytest.mark.parametrize(("rows", "cols"), [(ROWS, COLS), pytest.param(300, 1000, marks=pytest.mark.slow)])
def test_each_pe_has_the_colour_of_its_number(rows: int, cols: int, tmp_path: Path) -> None:
    pictures = draw(trace_of(tmp_path / "t.h5", rows, cols), tmp_path / "out")
    assert set(pictures) == {f"wafer-0-{k}" for k in ("sram", "busy", "links", "north", "east", "south", "west")}
    at = np.arange(rows * cols).reshape(rows, cols)
    wanted = {
        "sram": 2 * at / 1000,
        "links": (6 * at + 3 * at[::-1]) / (6 * at + 3 * at[::-1]).max(),
        "east": at / at.max(),
        "south": at[::-1] / at.max(),
        "north": at * 0.0,
    }
    colours = mpl.colormaps["viridis"]
    for kind, values in wanted.items():
        for row, col in ((0, 0), (0, cols - 1), (rows - 1, 0), (rows - 1, cols - 1), (rows // 2, cols // 2)):
            if (rows, cols) == (ROWS, COLS) or 0 < row < rows - 1:  # a line lies over the pixels at the edge
                found = pixel(pictures[f"wafer-0-{kind}"], row, col, rows, cols)
                assert np.abs(found - colours(float(values[row, col]))[:3]).max() < 0.02, (kind, row, col)


def test_full_wafer_is_drawn_with_a_pixel_a_pe(tmp_path: Path) -> None:
    picture = draw(trace_of(tmp_path / "t.h5", 994, 750), tmp_path / "out", "east")["wafer-0-east"]
    height, width = 994 + maps.TOP + maps.BOTTOM, 750 + maps.LEFT + maps.RIGHT
    assert picture.shape[:2] == (height, width)
