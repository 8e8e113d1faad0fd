"""Pass 3: give the region of every stage its position, as a rectangle of PEs on a wafer."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from wse.compiler.state import State
from wse.program.stage import Stage
from wse_mappings.mesh.placement import Rect, snake_bands


def place(state: State) -> State:
    """Choose the rectangle of PEs for every stage.

    The pass fills in ``stages``; the allocation pass later adds their SRAM addresses.

    1. Regions listed in a mapping file are placed as specified there.
    2. Other regions are placed side by side in bands (strips of the mesh). The direction usually
       alternates from band to band, so that consecutive regions are neighbours (`snake_bands`).
    3. The stage that stores the experts of all layers gets the rectangle of the first stage.
    """
    rects = [Rect(*plan.corner, plan.rows, plan.cols) for plan in state.plans if plan.corner is not None]  # 1
    # 2. Regions in bands.
    in_bands = (plan for plan in state.plans if plan.corner is None and not plan.experts)
    for _, wafer_plans in groupby(in_bands, key=lambda plan: plan.wafer):
        bands = [list(band) for _, band in groupby(wafer_plans, key=lambda plan: plan.band)]
        heights, widths = [band[0].rows for band in bands], [[plan.cols for plan in band] for band in bands]
        rects += snake_bands(state.mesh[1], heights, widths)
    rects += [rects[0] for plan in state.plans if plan.experts]  # 3
    stages = tuple(
        Stage(
            wafer=plan.wafer,
            rect=rect,
            first_layer=plan.first_layer,
            last_layer=plan.last_layer,
            first_part=plan.first_part,
            last_part=plan.last_part,
            has_embedding=plan.has_embedding,
            has_head=plan.has_head,
            sram_base_byte=0,
            sram_top_byte=0,
            span=plan.span,
            attention=cut.attention,
        )
        for plan, rect, cut in zip(state.plans, rects, state.cuts, strict=True)
    )
    return replace(state, stages=stages)
