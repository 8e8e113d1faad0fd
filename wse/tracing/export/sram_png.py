"""Picture of the SRAM of one PE during a token: all of it, and the reused addresses enlarged."""

from __future__ import annotations

from typing import Any, Final

from wse.reports.colours import USES
from wse.reports.shared_tables import tile_name
from wse.reports.terminal import printable
from wse.tracing.query.places.sram_lives import Band, SramLives, read_sram_lives
from wse.tracing.query.request import pe_of
from wse.tracing.query.view import trace_at
from wse.tracing.requests import InspectRequest

SIZE: Final = (15.0, 8.0)
"""Width and height of the image in inches."""
DPI: Final = 110
FONT: Final = 7
LETTER: Final = 0.56
"""Approximate width of a letter as a fraction of the height of its font."""
OP_LETTERS: Final = 1.3
"""Minimum distance between two names of ops over the picture, in letter heights."""
GROUND: Final = "#f4f6f8"


def sram_png_of(request: InspectRequest) -> bytes:
    """Draw how the SRAM of one PE is used during a pass, and return the image in PNG format.

    Args:
        request: Request that names the trace and the PE.

    Raises:
        BadTrace: The trace does not contain the data needed for the image.
    """
    from wse.reports.output_file import png_of

    with trace_at(request.trace) as trace:
        wafer, row, col = pe_of(trace, request)
        lives = read_sram_lives(trace, wafer, row, col)
        title = f"{trace.header.model}: SRAM of the PE at row {row}, column {col} of wafer {wafer}"
    return png_of(_figure(lives, printable(title)), DPI)


def _figure(lives: SramLives, title: str) -> Any:
    """Return a figure with up to three plots of the SRAM of a PE.

    The first plot shows the whole SRAM. The second one shows the use of the changing part of SRAM
    while one token is processed. The third one enlarges the second plot during one layer. It is
    omitted if the PE stores fewer than two layers.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=SIZE, dpi=DPI)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 4.6), left=0.055, right=0.985, top=0.83, bottom=0.07)
    grid.update(wspace=0.1, hspace=0.5)
    of = "a decoded token" if lives.phase == "decode" else f"a pass of {lives.phase}"
    figure.suptitle(f"{title}, over {of} (pass {lives.pass_index})", x=0.055, ha="left", fontsize=11, parse_math=False)
    moving = [band for band in lives.bands if not band.always]
    low = min((band.address for band in moving), default=0)
    high = max((band.address + band.bytes for band in moving), default=lives.sram_bytes)
    _draw_whole(figure.add_subplot(grid[:, 0]), lives, (low, high))
    layer = _one_layer(lives)
    token = figure.add_subplot(grid[0, 1] if layer else grid[:, 1])
    _draw_changing(token, lives, (low, high), (lives.first_cycle, max(lives.last_cycle, lives.first_cycle + 1)))
    if layer:
        _draw_changing(figure.add_subplot(grid[1, 1]), lives, (low, high), layer)
    uses = [use for use in USES if any(band.use == use for band in lives.bands)]
    patches = [Patch(facecolor=USES[use].light, label=use) for use in uses]
    figure.legend(handles=patches, loc="upper right", fontsize=FONT + 1, ncols=len(patches), frameon=False)
    return figure


def _one_layer(lives: SramLives) -> tuple[int, int] | None:
    """Return the first and last cycle of a typical layer on the PE, to show its use of SRAM.

    The layer is the second one that runs on the PE. The result is None if there are fewer than two.
    """
    starts: dict[int, int] = {}
    for name, start in lives.ops:
        parts = name.split(".", 2)
        if len(parts) == 3 and parts[1].isdecimal():
            starts.setdefault(int(parts[1]), start)
    begins = sorted(starts.values())
    return None if len(begins) < 2 else (begins[1], begins[2] if len(begins) > 2 else lives.last_cycle)


def _draw_whole(axes: Any, lives: SramLives, enlarged: tuple[int, int]) -> None:
    """Draw all SRAM addresses, with the names of the buffers that are always in use.

    Args:
        axes: Axes to draw on.
        lives: SRAM of the PE, and when each buffer is in use.
        enlarged: Address range whose use changes over time. It is only marked here; other plots
            show its details.
    """
    axes.set(xlim=(0, 1), ylim=(lives.sram_bytes, 0), ylabel="address in SRAM (bytes)", xticks=[])
    axes.set_title("whole SRAM", fontsize=9, loc="left")
    axes.set_facecolor(GROUND)
    for band in lives.bands:
        if band.always:
            _rectangle(axes, band, (0, 1))
            _name(axes, band, (0, 1))
    low, high = enlarged
    axes.axhspan(low, high, facecolor=USES["activations"].light, alpha=0.85)
    axes.annotate("reused over time ▸", (0.5, (low + high) / 2), fontsize=FONT, ha="center", va="center", color="white")
    _hexadecimal(axes)


def _draw_changing(axes: Any, lives: SramLives, enlarged: tuple[int, int], cycles: tuple[int, int]) -> None:
    """Draw an address range over time, with a rectangle for each use of a buffer.

    Args:
        axes: Axes to draw on.
        lives: SRAM of the PE, and when each buffer is in use.
        enlarged: Address range to draw.
        cycles: First and last cycle to draw.
    """
    low, high = enlarged
    first, last = cycles
    axes.set(xlim=cycles, ylim=(high, low), xlabel="cycle of the pass; each band is a buffer while it is needed")
    axes.set_facecolor(GROUND)
    for band in lives.bands:
        if band.address + band.bytes <= low or band.address >= high:
            continue
        visible_spans = [
            span for span in ([cycles] if band.always else band.needed) if span[0] < last and span[1] > first
        ]
        for span in visible_spans:
            _rectangle(axes, band, span)
        if visible_spans:
            clipped_spans = [(max(first, start), min(last, end)) for start, end in visible_spans]
            _name(axes, band, max(clipped_spans, key=lambda span: span[1] - span[0]))
    _name_ops(axes, lives, cycles)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _hexadecimal(axes)


def _name_ops(axes: Any, lives: SramLives, cycles: tuple[int, int]) -> None:
    """Draw a line where each op starts, and write the names of the longest ops.

    A name is omitted if it would overlap the name of a longer op.

    Args:
        axes: Axes to draw on.
        lives: SRAM of the PE, including the names and start cycles of the ops.
        cycles: First and last cycle of the plot.
    """
    starts = [start for _, start in lives.ops] + [lives.last_cycle]
    visible_ops = [at for at in range(len(lives.ops)) if cycles[0] <= starts[at] < cycles[1]]
    min_distance = OP_LETTERS * FONT * DPI / 72 / axes.get_window_extent().width * (cycles[1] - cycles[0])
    named_ops: list[int] = []
    for at in sorted(visible_ops, key=lambda at: starts[at] - starts[at + 1]):
        axes.axvline(starts[at], color="#30363d", linewidth=0.4, alpha=0.5)
        if starts[at] + 2 * min_distance < cycles[1] and all(
            abs(starts[at] - starts[other_op]) >= min_distance for other_op in named_ops
        ):
            named_ops.append(at)
            place = {"xy": (starts[at], 1.01), "xycoords": ("data", "axes fraction")}
            name = printable(lives.ops[at][0]).removeprefix("layers.")
            axes.annotate(name, **place, rotation=55, fontsize=FONT, va="bottom", parse_math=False)


def _rectangle(axes: Any, band: Band, span: tuple[int, int]) -> None:
    """Draw a rectangle that shows when a buffer is in use, and at which addresses.

    Args:
        axes: Axes with cycles on the x axis and addresses on the y axis.
        band: Name, address and size of the buffer.
        span: First and last cycle in which the buffer is in use.
    """
    from matplotlib.patches import Rectangle

    corner, cycles = (span[0], band.address), span[1] - span[0]
    colour = USES[band.use].light if band.use in USES else "#8b949e"
    axes.add_patch(
        Rectangle(corner, cycles, band.bytes, facecolor=colour, edgecolor="white", linewidth=0.5, alpha=0.85)
    )


def _name(axes: Any, band: Band, span: tuple[int, int]) -> None:
    """Write a buffer's name into its rectangle, vertically if the rectangle is narrow.

    The name is omitted if it fits neither horizontally nor vertically.

    Args:
        axes: Axes with cycles on the x axis and addresses on the y axis.
        band: Name, address and size of the buffer.
        span: First and last cycle of the rectangle.
    """
    name = printable(tile_name(band.name))
    box = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    box_width = (span[1] - span[0]) / (right - left) * box.width
    box_height = band.bytes / abs(top - bottom) * box.height
    letter = FONT * DPI / 72
    text_length = len(name) * letter * LETTER
    if text_length < box_width and letter < box_height:
        rotation = 0
    elif text_length < box_height and letter < box_width:
        rotation = 90
    else:
        return
    middle = (span[0] + span[1]) / 2, band.address + band.bytes / 2
    axes.annotate(name, middle, fontsize=FONT, ha="center", va="center", color="white", rotation=rotation)


def _hexadecimal(axes: Any) -> None:
    """Label the address axis with hexadecimal numbers at multiples of a power of two."""
    from matplotlib.ticker import MultipleLocator

    bottom, top = axes.get_ylim()
    axes.yaxis.set_major_locator(MultipleLocator(1 << max(2, int(abs(bottom - top) / 5).bit_length())))
    axes.yaxis.set_major_formatter(lambda value, _: f"{int(value):#06x}")
    axes.tick_params(labelsize=FONT + 1)
