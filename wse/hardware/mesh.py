"""Mesh sizes in the form ROWSxCOLS, and wafers with a smaller or a transposed mesh."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from wse.errors import BadMesh
from wse.hardware.spec import WaferSpec

LONGEST_SIDE: Final = 10_000
_FORM: Final = re.compile(r"\s*([0-9]{1,9})\s*[xX×]\s*([0-9]{1,9})\s*")


def parse_mesh(text: str, option: str = "mesh") -> tuple[int, int]:
    """Parse the numbers of rows and columns in a string of the form ROWSxCOLS.

    Args:
        text: Text such as ``16x24``.
        option: Option or key with this value, for the message.

    Raises:
        BadMesh: The string has a different form, or a side is outside 1 to 10,000.

    >>> parse_mesh("16x24")
    (16, 24)
    """
    match = _FORM.fullmatch(text)
    rows, cols = (int(side) for side in match.groups()) if match else (0, 0)
    if not 1 <= rows <= LONGEST_SIDE or not 1 <= cols <= LONGEST_SIDE:
        shown_text = repr(text) if len(text) <= 80 else repr(text[:80]) + "…"
        msg = f"{option} {shown_text}: give ROWSxCOLS, such as 16x16, with each side from 1 to {LONGEST_SIDE:,}"
        raise BadMesh(msg)
    return rows, cols


def mesh_on(wafer: WaferSpec, rows: int, cols: int) -> WaferSpec:
    """Return a copy of a wafer whose mesh has only the given numbers of rows and columns.

    Args:
        wafer: Wafer type to copy, with the full mesh.
        rows, cols: Size of the mesh, at least 1 each.

    Raises:
        BadMesh: The wafer has fewer rows or columns, or a side is below 1.
    """
    if rows < 1 or cols < 1:
        raise BadMesh(f"mesh {rows}x{cols}: each side must be at least 1")
    if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
        swapped = cols <= wafer.mesh_rows and rows <= wafer.mesh_cols
        hint = f"rows come first: {cols}x{rows} fits" if swapped else "give a smaller mesh, or use more wafers"
        msg = (
            f"mesh {rows}x{cols} is larger than {wafer.name}, which has {wafer.mesh_rows}x{wafer.mesh_cols} PEs; {hint}"
        )
        raise BadMesh(msg)
    return dataclasses.replace(wafer, mesh_rows=rows, mesh_cols=cols)


def transposed_wafer(wafer: WaferSpec) -> WaferSpec:
    """Return a wafer with the rows and columns of its mesh swapped, for transposed layouts.

    Layouts can be transposed because links along rows and along columns have the same costs.
    """
    return dataclasses.replace(wafer, mesh_rows=wafer.mesh_cols, mesh_cols=wafer.mesh_rows)
