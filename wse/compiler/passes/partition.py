"""Pass 1: which layers each stage stores, on which wafer and in which band of its mesh, and the shape of its region.

The mapping strategy of the request says which layers go together; bands are as high and regions of one band as wide as
their bytes need, unless the request lists regions. The embedding is with the first stage; the head is with the last, or
with the embedding when they share their table, which is held once. Experts that are spread over wafers have a stage of
their own, the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from wse.compiler.demand import demand_of
from wse.compiler.options import MODEL, THIN_GEMM
from wse.compiler.state import StagePlan, State
from wse.compiler.strategies import shares_of
from wse.errors import BadInput, BadMesh
from wse.models.graph import PartsOfLayers, op_graph
from wse_mappings.region_shapes import region_shapes
from wse_mappings.strategies.strategy import Demand, Layout, Share


def partition(state: State) -> State:
    """Fill ``plans`` and the ops of the parts of layers on each stage.

    Errors are those of `plan_stages`.
    """
    state = plan_stages(state)
    return replace(state, graph=op_graph(state.spec, state.options.scope, placed_parts(state.plans)))


def plan_stages(state: State) -> State:
    """Fill ``plans``.

    Raises:
        BadMesh: the mesh has no room for the regions that were requested.
        BadInput: the strategy leaves a layer out or holds one twice.
    """
    options, spec, choice = state.options, state.spec, state.choice
    layout = Layout(
        options.mapping,
        choice.bands,
        choice.per_band,
        choice.turned,
        mesh=choice.mesh,
        block_parts=choice.block_parts,
    )
    demand = demand_of(spec, state.wafer, options)
    shares = shares_of(demand, layout)
    regions = [share for share in shares if not share.experts]
    _check_layers(state, regions)
    shapes = _shapes(state, demand, layout, regions)
    model = options.scope == MODEL
    head_stage = 0 if spec.tied_embedding else len(regions) - 1
    plans = [
        StagePlan(
            wafer=share.wafer,
            band=share.band,
            rows=rows,
            cols=cols,
            first_layer=share.first_layer,
            last_layer=share.last_layer,
            has_embedding=model and index == 0,
            has_head=model and index == head_stage,
            span=share.wafers,
            corner=None if share.rect is None else (share.rect.row, share.rect.col),
            first_part=share.first_part,
            last_part=share.last_part,
        )
        for index, (share, (rows, cols)) in enumerate(zip(regions, shapes, strict=True))
    ]
    plans += [
        StagePlan(
            wafer=share.wafer,
            band=plans[0].band,
            rows=plans[0].rows,
            cols=plans[0].cols,
            first_layer=share.first_layer,
            last_layer=share.last_layer,
            has_embedding=False,
            has_head=False,
            span=share.wafers,
            experts=True,
        )
        for share in shares
        if share.experts
    ]
    return replace(state, plans=tuple(plans))


def placed_parts(plans: Sequence[StagePlan]) -> PartsOfLayers:
    """Return the parts of each layer that are stored on some stage; empty where all layers are whole."""
    held = [of_layer for plan in plans if not plan.experts for of_layer in plan.layers.parts]
    if all(parts.is_whole for _, parts in held):
        return ()
    return tuple(tuple(parts for _, parts in of_layer) for _, of_layer in groupby(held, key=lambda one: one[0]))


def _check_layers(state: State, regions: Sequence[Share]) -> None:
    """Check that the regions store every layer once and in order, on existing wafers."""
    ends = [(0, 0), *(share.layers.next for share in regions)]
    in_order = all((share.first_layer, share.first_part) == end for share, end in zip(regions, ends, strict=False))
    on_wafers = all(0 <= share.wafer <= state.options.wafers - share.wafers for share in regions)
    if not in_order or ends[-1] != (state.spec.layer_count, 0) or not on_wafers:
        stages = ", ".join(f"{share.first_layer} to {share.last_layer} on {share.wafer}" for share in regions)
        message = (
            f"--mapping {state.options.mapping}: layers {stages or 'nowhere'} of wafers, where layers 0 to "
            f"{state.spec.layer_count} go in order on {state.options.wafers}: mend the strategy's partition"
        )
        raise BadInput(message)


def _shapes(state: State, demand: Demand, layout: Layout, regions: Sequence[Share]) -> list[tuple[int, int]]:
    """Return rows and columns of every region: requested, square where the product needs it, or by their bytes."""
    if demand.listed:
        return region_shapes(demand, layout, regions)
    rows, (_, mesh_cols), region = _rows(state), state.mesh, state.options.region
    cols = region[1] if region is not None else rows if state.choice.prefill != THIN_GEMM else None
    most = max(sum(1 for _ in band) for _, band in groupby(regions, key=lambda share: (share.wafer, share.band)))
    if (cols or 1) * most > mesh_cols:
        message = (
            f"region of {cols or 1} columns: {most} of them side by side do not fit the {mesh_cols} "
            "columns of the mesh; choose a smaller --region or a larger --mesh"
        )
        raise BadMesh(message)
    return (
        region_shapes(demand, layout._replace(mesh=state.mesh), regions)
        if cols is None
        else [(rows, cols)] * len(regions)
    )


def _rows(state: State) -> int:
    region, (mesh_rows, _), bands = state.options.region, state.mesh, state.choice.bands
    rows = region[0] if region is not None else mesh_rows // bands
    if rows < 1 or rows * bands > mesh_rows:
        message = (
            f"region of {rows} rows: {bands} of them one below the other do not fit the {mesh_rows} rows of the mesh; "
            "choose a smaller --region or a larger --mesh"
        )
        raise BadMesh(message)
    return rows
