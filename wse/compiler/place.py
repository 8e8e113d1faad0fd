"""Pass 3: a rectangle on a wafer for every stage."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import region_shape
from wse.compiler.state import State
from wse.errors import BadMesh
from wse.program import Stage
from wse_mappings.placement import snake_regions


def place(state: State) -> State:
    """Fill ``stages`` (SRAM bounds come with allocation). Raises BadMesh when the regions do not fit the mesh."""
    wafer, per_wafer = state.wafer, state.choice.stages_per_wafer
    rows, cols = region_shape(state.options, wafer, per_wafer)
    regions = snake_regions(wafer.mesh_rows, wafer.mesh_cols, rows, cols, per_wafer)
    if len(regions) < per_wafer:
        message = (
            f"region {rows}x{cols}: {per_wafer} of them on each wafer do not fit its mesh of "
            f"{wafer.mesh_rows}x{wafer.mesh_cols}; {len(regions)} do: choose a smaller --region or a larger --mesh"
        )
        raise BadMesh(message)
    stages = tuple(
        Stage(
            wafer=plan.wafer,
            rect=regions[index % per_wafer],
            first_layer=plan.first_layer,
            last_layer=plan.last_layer,
            has_embedding=plan.has_embedding,
            has_head=plan.has_head,
            sram_base_byte=0,
            sram_top_byte=0,
        )
        for index, plan in enumerate(state.plans)
    )
    return replace(state, stages=stages)
