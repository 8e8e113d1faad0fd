"""Rectangles of PEs that a model leaves free on its wafers, where a draft model can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wse.program.program import Program
from wse.studies.estimate.prepare import PreparedEstimate
from wse_mappings.mesh.placement import Rect, free_rects


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRegion:
    """A rectangle of unused PEs on one of the model's wafers.

    Attributes:
        wafer: Index of the wafer.
        rect: The rectangle, in rows and columns of the whole wafer.
    """

    wafer: int
    rect: Rect

    @property
    def pes(self) -> int:
        """Number of PEs in the rectangle."""
        return self.rect.rows * self.rect.cols


def free_regions(prepared_estimate: PreparedEstimate, program: Program) -> list[FreeRegion]:
    """Return the rectangles of unused PEs on a model's wafers, in the order in which to try them.

    1. List all free rectangles, including PEs outside a mesh that was requested with ``--mesh``.
    2. Cut a copy of each rectangle to at most the size of the model's mesh, because ``wse run``
       gives a draft the same number of PEs as the model. List the cut rectangles first, then the
       whole ones, each group from largest to smallest.
    3. Of rectangles with the same shape, keep one. Prefer the wafer that is nearest to the wafer
       with the model's embedding table.

    Args:
        prepared_estimate: The request.
        program: The compiled model of the request.
    """
    whole_wafer = prepared_estimate.whole
    embedding_wafer = next(stage.wafer for stage in program.stages if stage.has_embedding)
    free_rectangles: list[FreeRegion] = []
    for wafer in sorted(range(program.wafers), key=lambda wafer: (abs(wafer - embedding_wafer), wafer)):
        occupied = {stage.rect for stage in program.stages if wafer in stage.wafers}
        if program.is_transposed:
            occupied = {rect.transposed for rect in occupied}
        for rect in free_rects(whole_wafer.mesh_rows, whole_wafer.mesh_cols, sorted(occupied)):
            free_rectangles.append(FreeRegion(wafer=wafer, rect=rect))
    by_shape: dict[tuple[int, int], FreeRegion] = {}
    for region in (
        *_clip_to_mesh(free_rectangles, prepared_estimate),
        *sorted(free_rectangles, key=lambda region: -region.pes),
    ):
        by_shape.setdefault((region.rect.rows, region.rect.cols), region)
    return [*by_shape.values()]


def _clip_to_mesh(regions: list[FreeRegion], prepared_estimate: PreparedEstimate) -> Iterator[FreeRegion]:
    """Cut free rectangles to at most the size of the model's mesh, and yield them largest first.

    Args:
        regions: Free rectangles of PEs.
        prepared_estimate: Request for the model, which determines its mesh.
    """
    rows, cols = prepared_estimate.fabric_shape
    clipped = [
        replace(region, rect=region.rect._replace(rows=min(region.rect.rows, rows), cols=min(region.rect.cols, cols)))
        for region in regions
    ]
    yield from sorted(clipped, key=lambda region: -region.pes)
