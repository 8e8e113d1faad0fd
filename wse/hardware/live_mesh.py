"""Meshes that programs see on wafers with dead PEs and links.

All wafers of a system show programs the same rows and columns: as many as the wafer that can show fewest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wse.errors import BadDefects
from wse.hardware.defects import Defects
from wse.hardware.spec import WaferSpec
from wse_mappings.mesh.faults import FabricFaults
from wse_mappings.mesh.logical_mesh import LogicalMesh, usable_shape

Meshes = tuple[LogicalMesh, ...]


def largest_live_meshes(defects: Defects, wafer: WaferSpec, wafers: int) -> Meshes:
    """Return the largest mesh of live PEs that each of some wafers has, of the same size on all.

    Raises:
        BadDefects: a wafer has no live PE.
    """
    fabrics = [defects.on(index).corner(wafer.mesh_rows, wafer.mesh_cols) for index in range(wafers)]
    rows, cols = usable_shape(fabrics)
    if rows == 0:
        message = (
            f"--defects {defects.option}: leaves no mesh of live PEs on {wafers} x {wafer.mesh_rows}x{wafer.mesh_cols} "
            f"PEs of {wafer.name}; give fewer dead PEs, or a larger mesh"
        )
        raise BadDefects(message)
    return tuple(LogicalMesh.on(fabric, rows, cols) for fabric in fabrics)


def corner_meshes(defects: Defects, whole: WaferSpec, mesh: WaferSpec, wafers: int) -> Meshes | None:
    """Return a mesh of live PEs as large as ``mesh``, on the smallest corner of each wafer that has it.

    The corner grows by a row and a column at a time, as far as the ``whole`` wafer goes; None where that is too small.
    """
    fabrics, rows, cols = [defects.on(index) for index in range(wafers)], mesh.mesh_rows, mesh.mesh_cols
    for growth in range(max(whole.mesh_rows - rows, whole.mesh_cols - cols) + 1):
        corners = [f.corner(min(rows + growth, whole.mesh_rows), min(cols + growth, whole.mesh_cols)) for f in fabrics]
        if all(_holds(corner, rows, cols) for corner in corners):
            return tuple(LogicalMesh.on(corner, rows, cols) for corner in corners)
    return None


def logical_wafer(
    wafer: WaferSpec, defects: Defects | None, wafers: int, *, grow_to: WaferSpec | None
) -> tuple[WaferSpec, Meshes]:
    """Return a wafer as programs see it, and where its PEs are on each of some.

    With ``grow_to`` programs see the ``wafer``'s own mesh, on a corner of that one which is larger where PEs are dead,
    or all of it. There are no meshes where nothing is dead on what programs see of any wafer.
    """
    if defects is None:
        return wafer, ()
    around = corner_meshes(defects, grow_to, wafer, wafers) if grow_to else None
    meshes = around or largest_live_meshes(defects, grow_to or wafer, wafers)
    faulty = any(mesh.fabric.dead.any() or mesh.fabric.links for mesh in meshes)
    return live_wafer(wafer, meshes), meshes if faulty else ()


def fewest_wafers_with_defects(wafer: WaferSpec, defects: Defects | None, fewest: Callable[[WaferSpec], int]) -> int:
    """The fewest wafers that hold a model when PEs are dead; ``fewest`` gives the number for wafers without defects.

    The more there are, the fewer live PEs the worst of them has.
    """
    count = fewest(wafer)
    while (
        defects is not None
        and (needed := fewest(live_wafer(wafer, largest_live_meshes(defects, wafer, count)))) > count
    ):
        count = needed
    return count


def live_wafer(wafer: WaferSpec, meshes: Meshes) -> WaferSpec:
    """Return the wafer with the rows and columns of live PEs."""
    rows, cols = meshes[0].shape
    return replace(wafer, mesh_rows=rows, mesh_cols=cols)


def _holds(fabric: FabricFaults, rows: int, cols: int) -> bool:
    def has_rows(out: npt.NDArray[np.bool_]) -> bool:
        return int(((~out).sum(axis=1) >= cols).sum()) >= rows

    return has_rows(fabric.dead) and has_rows(fabric.unreachable)  # what is cut off takes longer to find
