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
    """Find the largest mesh of live PEs that every wafer can provide.

    Programs do not see dead PEs. They see a smaller mesh that consists of live PEs only, the
    logical mesh. It has the same size on all wafers.

    Args:
        defects: Dead PEs and links.
        wafer: Wafer type. The logical meshes use only PEs within its mesh size.
        wafers: Number of wafers.

    Returns:
        The logical mesh of each wafer.

    Raises:
        BadDefects: A wafer has no live PE.
    """
    fabrics = [defects.on(index).corner(wafer.mesh_rows, wafer.mesh_cols) for index in range(wafers)]
    rows, cols = usable_shape(fabrics)
    if rows == 0:
        raise BadDefects(
            f"--defects {defects.option}: leaves no mesh of live PEs on {wafers} x {wafer.mesh_rows}x{wafer.mesh_cols} "
            f"PEs of {wafer.name}; give fewer dead PEs, or a larger mesh"
        )
    return tuple(LogicalMesh.on(fabric, rows, cols) for fabric in fabrics)


def corner_meshes(defects: Defects, full_wafer: WaferSpec, mesh: WaferSpec, wafers: int) -> Meshes | None:
    """Find a mesh of live PEs of a given size in the smallest possible corner of each wafer.

    Programs do not see dead PEs. They see a mesh that consists of live PEs only, the logical mesh.
    Here, it is formed from PEs in the first rows and columns (the corner) of the wafer. The corner
    starts at the size of the logical mesh, and grows by one row and one column at a time until it
    has enough live PEs. It has the same size on all wafers.

    Args:
        defects: Dead PEs and links.
        full_wafer: The full wafer, which limits the corner.
        mesh: Wafer with the requested size of the logical mesh.
        wafers: Number of wafers.

    Returns:
        The logical mesh of each wafer, or None if even the full wafer has too few live PEs.
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
    """Return the wafer that programs see if PEs are dead, and the live PEs that it consists of.

    Programs do not see dead PEs. They see a mesh that consists of live PEs only, the logical mesh.

    Args:
        wafer: Wafer with the requested mesh size.
        defects: Dead PEs and links; None if there are none.
        wafers: Number of wafers.
        grow_to: Larger wafer whose additional PEs may replace dead ones. None if there are none.

    Returns:
        A copy of ``wafer`` with the size of the logical mesh, and the logical mesh of each wafer.
        The size is the requested one if there are enough live PEs, otherwise the largest possible.
        The logical meshes are () if all PEs and links that they may use work.
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

    The search is iterative: with more wafers, the wafer with the most defects has fewer live PEs,
    so the model may need even more wafers.

    Args:
        wafer: The wafer without defects.
        defects: Dead PEs and links; None if there are none.
        min_wafers: Function that returns how many wafers the model needs, given the wafer with the
            size of the mesh of live PEs.
    """
    count = min_wafers(wafer)
    while (
        defects is not None
        and (needed_wafers := min_wafers(live_wafer(wafer, largest_live_meshes(defects, wafer, count)))) > count
    ):
        count = needed_wafers
    return count


def live_wafer(wafer: WaferSpec, meshes: Meshes) -> WaferSpec:
    """Return a copy of a wafer whose mesh has the size of ``meshes``, which consist of live PEs."""
    rows, cols = meshes[0].shape
    return replace(wafer, mesh_rows=rows, mesh_cols=cols)


def _has_live_mesh(fabric: FabricFaults, rows: int, cols: int) -> bool:
    """Return whether the live PEs of a part of a wafer suffice for a mesh of the given size."""

    def has_rows(unusable: npt.NDArray[np.bool_]) -> bool:
        """Return whether at least ``rows`` rows have at least ``cols`` usable PEs each.

        Args:
            unusable: Whether each PE is unusable, bool [rows, columns] of the part of the wafer.
        """
        return int(((~unusable).sum(axis=1) >= cols).sum()) >= rows

    return has_rows(fabric.dead) and has_rows(fabric.unreachable)  # the quick test first
