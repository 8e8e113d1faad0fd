"""What dead PEs and links cost: PEs that are lost, ways that are longer, and cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wse.fabric.model import Fabric
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS
from wse.request.basis import Placeable


def defect_facts(prepared: Placeable, program: Program, lengths: Sequence[int]) -> dict[str, Any]:
    """``defects``; nothing where wafers are whole. Times are of a token of each user after ``lengths`` others.

    ``extra_hops`` are those of the longest line of any region over a line of as many neighbours. ``slowdown`` compares
    with the same Program on a whole mesh of as many rows and columns as programs see.
    """
    defects, meshes = prepared.defects, prepared.meshes
    if defects is None:
        return {}
    rows, cols = prepared.fabric_shape
    live_rows, live_cols = meshes[0].shape
    every, used = len(meshes) * rows * cols, len(meshes) * live_rows * live_cols
    fabric = Fabric(program, prepared.wafer, prepared.software, meshes)
    cycles = fabric.decode_cost(*lengths).cycles
    whole_cycles = Fabric(program, prepared.wafer, prepared.software).decode_cost(*lengths).cycles
    dead, gone = (sum(int(found.sum()) for found in planes) for planes in _planes(prepared))
    return {
        "defects": {
            "given": defects.given,
            **({} if defects.rate is None else {"seed": defects.seed}),
            "fabric_rows": rows,
            "fabric_cols": cols,
            "dead_pes": dead,
            "cut_off_pes": gone - dead,
            "dead_links": sum(mesh.fabric.links for mesh in meshes),
            "rows_lost": rows - live_rows,
            "cols_lost": cols - live_cols,
            "pes_lost": every - used,
            "usable_fraction": used / every,
            "longest_detour_hops": max(int(hops.max(initial=1)) - 1 for mesh in meshes for hops in mesh.hops),
            "extra_hops": {name: _extra(fabric, axis) for name, axis in (("rows", ROWS), ("columns", COLUMNS))},
            "streams_on_a_link": {
                name: _streams(fabric, axis) for name, axis in (("rows", ROWS), ("columns", COLUMNS))
            },
            "cycles_per_token": cycles,
            "whole_cycles_per_token": whole_cycles,
            "slowdown": cycles / whole_cycles,
        }
    }


def _planes(prepared: Placeable) -> tuple[list[Any], list[Any]]:
    fabrics = [mesh.fabric for mesh in prepared.meshes]
    return [fabric.dead for fabric in fabrics], [fabric.gone for fabric in fabrics]


def _extra(fabric: Fabric, axis: int) -> int:
    lines = [fabric.ways.line(stage, axis) for stage in range(len(fabric.program.stages))]
    ends = [stage.rect[3 - axis] - 1 for stage in fabric.program.stages]  # on one wafer
    return max(int(line.places[end]) - end for line, end in zip(lines, ends, strict=True) if line is not None)


def _streams(fabric: Fabric, axis: int) -> int:
    lines = [fabric.ways.line(stage, axis) for stage in range(len(fabric.program.stages))]
    return max(line.streams for line in lines if line is not None)
