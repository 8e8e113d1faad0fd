"""Logical meshes: the meshes of live PEs that programs use on wafers with dead PEs and links.

All wafers of a system have logical meshes of the same size. The wafer with the fewest usable rows
and columns determines the size.
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
    """Return the largest logical meshes, all of the same size, that live PEs form on each wafer.

    A logical mesh is the mesh of live PEs that programs see on a wafer with dead PEs.

    Args:
        defects: Dead PEs and links.
        wafer: Wafer whose mesh size applies to all wafers.
        wafers: Number of wafers.

    Raises:
        BadDefects: A wafer has no live PE.
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


def corner_meshes(defects: Defects, full_wafer: WaferSpec, mesh: WaferSpec, wafers: int) -> Meshes | None:
    """Return logical meshes of a given size in the smallest corner of the wafers with enough PEs.

    A logical mesh is the mesh of live PEs that programs see on a wafer with dead PEs. A corner is
    the first rows and columns of the wafer. It starts at the size of the logical mesh and grows by
    one row and one column at a time. All wafers use a corner of the same size.

    Args:
        defects: Dead PEs and links.
        full_wafer: The full wafer, which limits the corner.
        mesh: Wafer with the size of the logical mesh.
        wafers: Number of wafers.

    Returns:
        A logical mesh for each wafer, or None if even the full wafer is too small.
    """
    fabrics, rows, cols = [defects.on(index) for index in range(wafers)], mesh.mesh_rows, mesh.mesh_cols
    for growth in range(max(full_wafer.mesh_rows - rows, full_wafer.mesh_cols - cols) + 1):
        corners = [
            f.corner(min(rows + growth, full_wafer.mesh_rows), min(cols + growth, full_wafer.mesh_cols))
            for f in fabrics
        ]
        if all(_has_live_mesh(corner, rows, cols) for corner in corners):
            return tuple(LogicalMesh.on(corner, rows, cols) for corner in corners)
    return None


def logical_wafer(
    wafer: WaferSpec, defects: Defects | None, wafers: int, *, grow_to: WaferSpec | None
) -> tuple[WaferSpec, Meshes]:
    """Return a wafer as programs see it, and the mesh of live PEs on each wafer.

    If PEs are dead, programs see only a mesh of live PEs, the logical mesh.

    Args:
        wafer: Wafer with the mesh size that programs should see.
        defects: Dead PEs and links; None if there are none.
        wafers: Number of wafers.
        grow_to: Larger wafer on which to find live PEs for the requested mesh. If it has too few,
            programs see the largest mesh of live PEs on it. With None, programs see the largest
            mesh of live PEs on ``wafer``.

    Returns:
        The wafer with the size of the logical mesh, and the meshes. There are no meshes if no PE or
        link of any logical mesh is dead.
    """
    if defects is None:
        return wafer, ()
    corners = corner_meshes(defects, grow_to, wafer, wafers) if grow_to else None
    meshes = corners or largest_live_meshes(defects, grow_to or wafer, wafers)
    has_faults = any(mesh.fabric.dead.any() or mesh.fabric.links for mesh in meshes)
    return live_wafer(wafer, meshes), meshes if has_faults else ()


def fewest_wafers_with_defects(
    wafer: WaferSpec, defects: Defects | None, min_wafers: Callable[[WaferSpec], int]
) -> int:
    """Return the minimum number of wafers that a model needs when PEs are dead.

    The search is iterative, because the number of live PEs depends on the result: the more wafers,
    the fewer live PEs the worst wafer has.

    Args:
        wafer: The wafer without defects.
        defects: Dead PEs and links; None if there are none.
        min_wafers: Function that returns the minimum number of wafers with a given mesh.
    """
    count = min_wafers(wafer)
    while (
        defects is not None
        and (needed_wafers := min_wafers(live_wafer(wafer, largest_live_meshes(defects, wafer, count)))) > count
    ):
        count = needed_wafers
    return count


def live_wafer(wafer: WaferSpec, meshes: Meshes) -> WaferSpec:
    """Return a copy of a wafer with the mesh size of the given meshes of live PEs."""
    rows, cols = meshes[0].shape
    return replace(wafer, mesh_rows=rows, mesh_cols=cols)


def _has_live_mesh(fabric: FabricFaults, rows: int, cols: int) -> bool:
    """Return whether live PEs on a part of a wafer can form a mesh of the given size."""

    def has_rows(unusable: npt.NDArray[np.bool_]) -> bool:
        """Return whether enough rows have enough usable PEs for the mesh."""
        return int(((~unusable).sum(axis=1) >= cols).sum()) >= rows

    return has_rows(fabric.dead) and has_rows(fabric.unreachable)  # the quick test first
