"""Result field ``defects``: PEs lost to defects, longer routes and their cycles, with a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from wse.program.steps import COLUMNS, ROWS
from wse.reports.number_text import count, percent, plural
from wse.reports.result import Doc, Result
from wse.reports.table import Table, pair_table
from wse.reports.terminal import printable

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.compiler.placeable import Placeable
    from wse.program.program import Program

Axis = Literal["rows", "columns"]
AXES: dict[Axis, int] = {"rows": ROWS, "columns": COLUMNS}
"""Axes of a region's lines, keyed by name."""


class DefectsResult(Result):
    """PEs lost because of dead PEs and links, longer routes, and the resulting slowdown.

    Counts of PEs and links are totals of all wafers. A PE is a processing element.
    """

    given: Annotated[str, Doc("the file or the rate of `--defects`")]
    seed: Annotated[int | None, Doc("random seed of the dead PEs, if a rate was given")] = None
    fabric_rows: Annotated[int, Doc("rows of PEs of a wafer, live or dead")]
    fabric_cols: Annotated[int, Doc("columns of PEs of a wafer, live or dead")]
    dead_pes: Annotated[int, Doc("dead PEs")]
    cut_off_pes: Annotated[int, Doc("live PEs that no route reaches")]
    dead_links: Annotated[int, Doc("dead links between live PEs")]
    rows_lost: Annotated[int, Doc("rows that programs do not see")]
    cols_lost: Annotated[int, Doc("columns that programs do not see")]
    pes_lost: Annotated[int, Doc("PEs that programs do not see")]
    usable_fraction: Annotated[float, Doc("fraction of PEs that programs see")]
    longest_detour_hops: Annotated[int, Doc("maximum number of extra links between neighbouring PEs", "hops")]
    extra_hops: Annotated[
        Mapping[Axis, int], Doc("extra links, due to defects, of the longest line of any region", "hops")
    ]
    streams_on_a_link: Annotated[Mapping[Axis, int], Doc("maximum number of streams of one line that share a link")]
    slowdown: Annotated[float, Doc("cycles of a token, divided by those without defects")]


def defects_result(placeable: Placeable, program: Program, lengths: Sequence[int]) -> DefectsResult | None:
    """Count the dead PEs and links on a request's wafers, and compute the resulting slowdown.

    The slowdown is the cycles per decoded token, divided by the cycles of the same Program on a
    mesh without defects. Both meshes have the same number of rows and columns of live PEs.

    Args:
        placeable: The estimate request.
        program: The compiled model.
        lengths: Number of tokens in each user's KV cache before the timed token.

    Returns:
        The counts and the slowdown, or None for a request without defects.
    """
    from wse.backends.fabric.model import Fabric  # slow to load, and not needed to read a result

    defects, meshes = placeable.defects, placeable.meshes
    if defects is None:
        return None
    rows, cols = placeable.fabric_shape
    live_rows, live_cols = placeable.wafer.mesh_rows, placeable.wafer.mesh_cols
    all_pes, used_pes = program.wafers * rows * cols, program.wafers * live_rows * live_cols
    fabric = Fabric(program, placeable.wafer, placeable.software, meshes)
    cycles = fabric.decode_cost(*lengths).cycles
    whole_cycles = Fabric(program, placeable.wafer, placeable.software).decode_cost(*lengths).cycles
    dead = sum(int(mesh.fabric.dead.sum()) for mesh in meshes)
    unreachable = sum(int(mesh.fabric.unreachable.sum()) for mesh in meshes)
    return DefectsResult(
        given=defects.option,
        seed=None if defects.rate is None else defects.seed,
        fabric_rows=rows,
        fabric_cols=cols,
        dead_pes=dead,
        cut_off_pes=unreachable - dead,
        dead_links=sum(mesh.fabric.links for mesh in meshes),
        rows_lost=rows - live_rows,
        cols_lost=cols - live_cols,
        pes_lost=all_pes - used_pes,
        usable_fraction=used_pes / all_pes,
        longest_detour_hops=max((int(hops.max(initial=1)) - 1 for mesh in meshes for hops in mesh.hops), default=0),
        extra_hops={name: _extra_hops(fabric, axis) for name, axis in AXES.items()},
        streams_on_a_link={name: _streams(fabric, axis) for name, axis in AXES.items()},
        slowdown=cycles / whole_cycles,
    )


def defects_table(defects: DefectsResult) -> Table:
    """Build the table of dead PEs and links, the fraction of usable PEs, and the slowdown."""
    if not (defects.dead_pes or defects.dead_links):
        remedy = "list some in a file" if defects.seed is None else "another --defects-seed draws others"
        text = f"no PE and no link on {defects.fabric_rows}x{defects.fabric_cols} PEs; {remedy}"
        return pair_table([("dead", text)], "Defects", printable(defects.given))
    seed_note = "" if defects.seed is None else f", drawn with seed {defects.seed}"
    cut_off, links = defects.cut_off_pes, defects.dead_links
    dead = plural(defects.dead_pes, "PE")
    if cut_off:
        dead += f", and {plural(cut_off, 'PE')} that they cut off"
    if links:
        dead += f", {plural(links, 'link')}"
    rows, cols = defects.fabric_rows, defects.fabric_cols
    lost = f"{plural(defects.rows_lost, 'row')} and {plural(defects.cols_lost, 'column')} of {rows}x{cols}"
    extra, max_streams = defects.extra_hops, max(defects.streams_on_a_link.values())
    contention = f"; up to {max_streams} of a line's streams share a link" if max_streams > 1 else ""
    usable = percent(defects.usable_fraction)
    lines = [
        ("dead", dead),
        ("lost", f"{lost}: {plural(defects.pes_lost, 'PE')}, {usable} are left"),
        ("longest detour", plural(defects.longest_detour_hops, "hop")),
        ("longest lines", f"{count(extra['rows'])} more hops a row, {count(extra['columns'])} a column{contention}"),
        ("slowdown", f"{defects.slowdown:.3f} times the cycles a token of as large a mesh without defects"),
    ]
    return pair_table(lines, "Defects", f"{printable(defects.given)}{seed_note}")


def _extra_hops(fabric: Fabric, axis: int) -> int:
    """Return how many links the longest row or column of PEs is longer because of defects.

    Routes around dead PEs make a row or column longer than on an intact wafer. The result is the
    maximum over all regions (rectangles of PEs that store some layers).

    Args:
        fabric: Timing model of the compiled model.
        axis: Whether rows or columns are examined: one of the values of `AXES`.
    """
    lines = [fabric.routes.line(stage, axis) for stage in range(len(fabric.program.stages))]
    ends = [stage.rect[3 - axis] - 1 for stage in fabric.program.stages]  # on one wafer
    lines_with_end = [(line, end) for line, end in zip(lines, ends, strict=True) if line is not None]
    return max((int(line.places[end]) - end for line, end in lines_with_end), default=0)


def _streams(fabric: Fabric, axis: int) -> int:
    """Return how many connections between PEs share the most used physical link.

    Without defects, each pair of neighbouring PEs has its own link, so the result is 1. Routes
    around dead PEs may share links. Only connections within the same row or column of a region (a
    rectangle of PEs that stores some layers) are counted together.

    Args:
        fabric: Timing model of the compiled model.
        axis: Whether rows or columns are examined: one of the values of `AXES`.
    """
    lines = [fabric.routes.line(stage, axis) for stage in range(len(fabric.program.stages))]
    return max((line.streams for line in lines if line is not None), default=1)
