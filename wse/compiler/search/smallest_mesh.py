"""Smallest mesh on which a model fits."""

from __future__ import annotations

import math
from dataclasses import replace

from wse.compiler.options import Options
from wse.compiler.passes.allocate import free_bytes_per_pe
from wse.compiler.search.feasibility import fits
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import cache_bytes, stored_bytes
from wse.number_formats import ELEMENT_BYTES


def smallest_square(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, at_least: int = 1
) -> int | None:
    """Return the side length of the smallest square mesh that fits the model; None if none does.

    Args:
        spec: Model.
        wafer: Wafer, whose shorter side limits the mesh.
        software: Costs of the software on the wafer.
        options: The requested options. The requested region is ignored.
        at_least: Minimum side length.
    """
    largest_side = min(wafer.mesh_rows, wafer.mesh_cols)
    smallest_side = math.isqrt(int(min_pes(spec, wafer, software, options) / options.wafers))
    for side in range(max(at_least, smallest_side, 1), largest_side + 1):
        if fits(spec, mesh_on(wafer, side, side), software, replace(options, region=None)):
            return side
    return None


def smallest_mesh(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, at_least: int = 1
) -> tuple[int, int] | None:
    """Return the rows and columns of the smallest mesh that fits the model; None if none does.

    The mesh is a square if a square suffices. Otherwise the mesh uses the full shorter side of the
    wafer, and as much of the longer side as needed.

    Args:
        spec: Model.
        wafer: Wafer, which limits the mesh.
        software: Costs of the software on the wafer.
        options: The requested options. The requested region is ignored.
        at_least: Minimum side length.
    """
    side = smallest_square(spec, wafer, software, options, at_least)
    if side is not None:
        return side, side
    short_side, long_side = sorted((wafer.mesh_rows, wafer.mesh_cols))

    def shape(length: int) -> tuple[int, int]:
        """Return the rows and columns of a mesh that uses the whole shorter side of the wafer.

        Args:
            length: PEs along the longer side.
        """
        return (length, short_side) if wafer.mesh_rows == long_side else (short_side, length)

    def fits_on(length: int) -> bool:
        """Return whether the model fits on a mesh with ``length`` PEs along the longer side."""
        return fits(spec, mesh_on(wafer, *shape(length)), software, replace(options, region=None))

    if long_side == short_side or not fits_on(long_side):
        return None
    low, high = short_side, long_side  # low does not fit, high does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits_on(middle) else (middle, high)
    return shape(high)


def min_pes(spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options) -> float:
    """Return how many PEs are needed to store only the weights and the KV caches, not rounded."""
    element_bytes = ELEMENT_BYTES[options.activation_type]
    weight_bytes = stored_bytes(spec, options.dtype, element_bytes)
    kv_bytes = options.planned_users * cache_bytes(spec, options.context, element_bytes)
    return (weight_bytes + kv_bytes) / max(free_bytes_per_pe(wafer, software), 1)
