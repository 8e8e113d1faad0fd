"""Pass 1: divide the layers into stages, and choose the wafer, band and size of each region.

A stage consists of consecutive layers on one region, a rectangle of PEs. Regions are placed side by
side in bands, which are strips over the whole width of the mesh. The mapping strategy of the
request decides which layers form a stage. Unless the request lists regions, the heights of bands
and the widths of regions depend on the bytes that they store.

The embedding is part of the first stage. The head is part of the last stage, or of the first stage
if the two share a table, which is then stored only once. Experts that are distributed across all
wafers form a separate stage, which comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from wse.compiler.demand import demand_of
from wse.compiler.options import MODEL, THIN_GEMM
from wse.compiler.state import StagePlan, State
from wse.compiler.strategies import layers_of_regions
from wse.errors import BadInput, BadMesh
from wse.models.graph import PartsOfLayers, op_graph
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.regions.region_shapes import region_shapes


def partition(state: State) -> State:
    """Divide the model into stages, the parts that are each stored on a rectangle of PEs.

    The pass fills in ``plans`` and replaces ``graph``. If the feed-forward block of a layer is
    split between stages, the new graph has separate ops for each of its parts.

    Raises:
        BadMesh, BadInput: See `plan_stages`.
    """
    state = plan_stages(state)
    return replace(state, graph=op_graph(state.spec, state.options.scope, placed_parts(state.plans)))


def plan_stages(state: State) -> State:
    """Decide which layers and how many PEs each stage has: the first part of `partition`.

    A stage is a part of the model that is stored on a rectangle of PEs. The function fills in
    ``plans``. A search calls it without the rest of the pass, and then replaces the model with a
    reduced one that has fewer stages.

    1. Let the mapping strategy divide the layers into regions.
    2. Compute the size of every region.
    3. Add the embedding to the first stage, and the head to the last stage. If both share a table,
       add the head to the first stage.
    4. If the strategy has a stage for the experts of all layers, add the stage with the size of the
       first region.

    Raises:
        BadMesh: The requested regions do not fit on the mesh.
        BadInput: The strategy omits a layer or places one twice.
    """
    options, spec, choice = state.options, state.spec, state.choice
    layout = choice.layout(options.mapping)
    demand = demand_of(spec, state.wafer, options)
    region_layers = layers_of_regions(demand, layout)  # 1
    regions = [region for region in region_layers if not region.experts]
    _check_layers(state, regions)
    shapes = _shapes(state, demand, layout, regions)  # 2
    model = options.scope == MODEL  # 3
    head_stage = 0 if spec.tied_embedding else len(regions) - 1
    plans = [
        _plan(region, shape, region.band, has_embedding=model and index == 0, has_head=model and index == head_stage)
        for index, (region, shape) in enumerate(zip(regions, shapes, strict=True))
    ]
    plans += [  # 4
        _plan(region, shapes[0], regions[0].band, has_embedding=False, has_head=False)
        for region in region_layers
        if region.experts
    ]
    return replace(state, plans=tuple(plans))


def _plan(region: RegionLayers, shape: tuple[int, int], band: int, *, has_embedding: bool, has_head: bool) -> StagePlan:
    """Return the plan of the stage that stores the layers of a region.

    Args:
        region: Layers and wafers of the region.
        shape: Rows and columns of the region on each wafer.
        band: Index of the band, the strip of the mesh in which the region is placed.
        has_embedding, has_head: Whether the stage contains the embedding table and the output head.
    """
    return StagePlan(
        wafer=region.wafer,
        band=band,
        rows=shape[0],
        cols=shape[1],
        first_layer=region.first_layer,
        last_layer=region.last_layer,
        has_embedding=has_embedding,
        has_head=has_head,
        span=region.wafers,
        experts=region.experts,
        corner=None if region.rect is None else (region.rect.row, region.rect.col),
        first_part=region.first_part,
        last_part=region.last_part,
    )


def placed_parts(plans: Sequence[StagePlan]) -> PartsOfLayers:
    """Return how layers are divided into parts by the stages; empty if all layers are whole.

    A feed-forward block may be split into parts that are stored on neighbouring stages.

    Returns:
        For each layer, its parts in order.
    """
    stored_parts = [layer_parts for plan in plans if not plan.experts for layer_parts in plan.layers.parts]
    if all(parts.is_whole for _, parts in stored_parts):
        return ()
    return tuple(
        tuple(parts for _, parts in layer_parts)
        for _, layer_parts in groupby(stored_parts, key=lambda layer_and_parts: layer_and_parts[0])
    )


def _check_layers(state: State, regions: Sequence[RegionLayers]) -> None:
    """Check that the regions contain every layer exactly once, in order and on existing wafers.

    A region is a rectangle of PEs that stores consecutive layers.

    Raises:
        BadInput: A layer is missing, duplicated or out of order, or a wafer does not exist.
    """
    ends = [(0, 0), *(region.layers.next for region in regions)]
    in_order = all((region.first_layer, region.first_part) == end for region, end in zip(regions, ends, strict=False))
    on_wafers = all(0 <= region.wafer <= state.options.wafers - region.wafers for region in regions)
    if not in_order or ends[-1] != (state.spec.layer_count, 0) or not on_wafers:
        stages = ", ".join(f"{region.first_layer} to {region.last_layer} on {region.wafer}" for region in regions)
        raise BadInput(
            f"--mapping {state.options.mapping}: the strategy places layers {stages or 'nowhere'}, but must place "
            f"layers 0 to {state.spec.layer_count} in order on {state.options.wafers} wafers: mend its partition"
        )


def _shapes(state: State, demand: Demand, layout: Layout, regions: Sequence[RegionLayers]) -> list[tuple[int, int]]:
    """Return the rows and columns of every region.

    1. Regions listed in a mapping file have the listed size.
    2. If a size is requested (``--region``), all regions have this size.
    3. For prefill by MeshGEMM, all regions are squares as high as a band (a strip of the mesh that
       contains regions side by side).
    4. Otherwise the number of columns of a region and the rows of its band depend on the bytes of
       its layers.

    Args:
        state: State before this pass.
        demand: The bytes of each layer, and the wafers on which layers are placed.
        layout: Number of bands, regions per band and the part of the mesh to use.
        regions: Layers of each region.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    if demand.listed:  # 1
        return region_shapes(demand, layout, regions)
    rows, (_, mesh_cols), region = _rows(state), state.mesh, state.options.region
    cols = region[1] if region is not None else rows if state.choice.prefill != THIN_GEMM else None  # 2, 3
    max_per_band = max(
        sum(1 for _ in band)
        for _, band in groupby(regions, key=lambda stage_region: (stage_region.wafer, stage_region.band))
    )
    if (cols or 1) * max_per_band > mesh_cols:
        raise BadMesh(
            f"region of {cols or 1} columns: {max_per_band} of them side by side do not fit the {mesh_cols} "
            "columns of the mesh; choose a smaller --region or a larger --mesh"
        )
    if cols is None:  # 4
        return region_shapes(demand, layout._replace(mesh=state.mesh), regions)
    return [(rows, cols)] * len(regions)


def _rows(state: State) -> int:
    """Return the number of rows per region: as requested, or the mesh rows divided by the bands.

    A band is a strip of the mesh that contains regions side by side.

    Raises:
        BadMesh: The bands do not fit on the mesh.
    """
    region, (mesh_rows, _), bands = state.options.region, state.mesh, state.choice.bands
    rows = region[0] if region is not None else mesh_rows // bands
    if rows < 1 or rows * bands > mesh_rows:
        raise BadMesh(
            f"region of {rows} rows: {bands} of them one below the other do not fit the {mesh_rows} rows of the mesh; "
            "choose a smaller --region or a larger --mesh"
        )
    return rows
