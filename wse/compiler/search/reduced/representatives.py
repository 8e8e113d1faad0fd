"""Representatives: the stages and layers of a model that its reduced model keeps.

A reduced model has one stage of each class of equivalent stages, and one layer of each kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import accumulate, pairwise

from wse.compiler.choice import Choice
from wse.compiler.options import REPORT, Options
from wse.compiler.passes.partition import placed_parts, plan_stages
from wse.compiler.pipeline import first_state
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.state import StagePlan
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.graph import op_graph
from wse.models.spec import Layer, ModelSpec
from wse_mappings.cuts.layer_parts import LAYER_PARTS, Parts


def reduced_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> ReducedModel:
    """Return a layout's reduced model, which has one layer and one stage of each kind.

    The last two results are cached because a search builds a reduced model twice: to count its
    bytes and to try its layout.

    Args:
        spec, wafer, software, options: Inputs of the compilation.
        choice: Compiler settings, which include the layout (the division of wafers into regions).

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    return options.cache.of(_build_reduced_model, 2)(spec, wafer, software, options, choice)


def _build_reduced_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> ReducedModel:
    """Build the reduced model for a choice.

    1. Distribute the layers across stages as in the whole model.
    2. Group the stages into classes. Stages of a class have the same numbers of rows, columns and
       layers of each kind, and the same tables. Either all or none of them follow a stage on
       another wafer. They differ only in their position and in the order of their layers. Each
       stage at a listed position forms a separate class. The class of an expert stage also depends
       on all other stages, because it uses the memory after theirs.
    3. Keep the first stage of each class, and one layer of each kind in it. Parts of a layer are a
       separate kind. Record the number of omitted layers of the kind in the stage, which determines
       SRAM, and in all stages, which determines the time. A stage that follows a stage on another
       wafer also does so in the reduced model.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    # 1. Divide the whole model.
    whole_model = plan_stages(first_state(spec, wafer, software, options, choice))
    # 2. Group the stages into classes.
    classes: dict[tuple[object, ...], list[StagePlan]] = defaultdict(list)
    crossings = [not b.experts and b.wafer != a.wafer for a, b in pairwise(whole_model.plans)]
    for plan, crosses in zip(whole_model.plans, (False, *crossings), strict=True):
        kinds = _kinds(spec, plan)
        place = plan.corner and (plan.wafer, *plan.corner)
        tables = plan.has_embedding, plan.has_head
        shape = plan.rows, plan.cols, plan.span
        plans_below = whole_model.plans if plan.experts else ()
        classes[crosses, place, shape, tables, frozenset(kinds.items()), plans_below].append(plan)
    # 3. Keep one stage of each class and one layer of each kind.
    layers: list[Layer] = []
    further_layers, layer_multiplicity, plans, on_wafer = [], [], [], 0
    for (enters_wafer, *_), stages in classes.items():
        first = len(layers)
        for (layer, _), count in _kinds(spec, stages[0]).items():
            layers.append(layer)
            further_layers.append(count - 1)
            layer_multiplicity.append(count * len(stages))
        on_wafer += bool(enters_wafer)
        wafer_index = stages[0].wafer if stages[0].experts else on_wafer
        plans.append(replace(stages[0], first_layer=first, last_layer=len(layers), wafer=wafer_index))
    reduced_spec = replace(spec, layers=tuple(layers))
    state = replace(
        whole_model,
        spec=reduced_spec,
        options=replace(options, capacity=REPORT),
        graph=op_graph(reduced_spec, options.scope, placed_parts(plans)),
        plans=tuple(plans),
        last_pass="partition",
    )
    return ReducedModel(
        state=state,
        further_layers=tuple(further_layers),
        layer_multiplicity=tuple(layer_multiplicity),
        stage_multiplicity=tuple(map(len, classes.values())),
        classes=tuple(classes),
    )


def most_common_layers(reduced: ReducedModel) -> ReducedModel:
    """Return the reduced model with only the stages that contain the most common layers.

    The remaining stages show how long layers take, and only one or two stages have to be compiled.
    Transfers between stages are not represented, and the head is computed in one chunk. If the
    experts of all layers have a separate stage, the model is returned unchanged.

    1. For each kind of layer, find the layer that represents the most layers. Layers that are split
       between stages count only if there is no whole layer of that kind.
    2. Keep the stages of these layers.
    3. Renumber the stages in sequence, with the embedding on the first and the head on the last
       stage.
    """
    plans, layers = reduced.state.plans, reduced.state.spec.layers
    if any(plan.experts for plan in plans):
        return reduced
    # 1. The most common layer of each kind.
    parts_of_layer = dict(layer_parts for plan in plans for layer_parts in plan.layers.parts)
    whole_kinds = {layer_kind for number, layer_kind in enumerate(layers) if parts_of_layer[number].is_whole}
    totals, most_common = Counter[Layer](), dict[Layer, int]()
    for number, (layer_kind, count) in enumerate(zip(layers, reduced.layer_multiplicity, strict=True)):
        if layer_kind in whole_kinds and not parts_of_layer[number].is_whole:
            continue
        totals[layer_kind] += count
        if layer_kind not in most_common or count > reduced.layer_multiplicity[most_common[layer_kind]]:
            most_common[layer_kind] = number
    chosen_layers = sorted(most_common.values())
    # 2. Their stages.
    kept_plans = [
        plan for plan in plans if any(plan.first_layer <= number < plan.last_layer for number in chosen_layers)
    ]
    numbers = [number for plan in kept_plans for number in range(plan.first_layer, plan.last_layer)]
    ends = [0, *accumulate(plan.last_layer - plan.first_layer for plan in kept_plans)]
    spans = [0, *accumulate(plan.span for plan in kept_plans)]
    # 3. Stages in a row.
    spec = replace(reduced.state.spec, layers=tuple(layers[number] for number in numbers))
    stages = tuple(
        replace(
            plan,
            wafer=spans[i],
            first_layer=ends[i],
            last_layer=ends[i + 1],
            has_embedding=i == 0,
            has_head=i == len(kept_plans) - 1,
        )
        for i, plan in enumerate(kept_plans)
    )
    return ReducedModel(
        state=replace(
            reduced.state,
            spec=spec,
            graph=op_graph(spec, reduced.state.options.scope, placed_parts(stages)),
            choice=replace(reduced.state.choice, head_chunk=spec.vocab_size),
            plans=stages,
        ),
        further_layers=tuple(reduced.further_layers[number] for number in numbers),
        layer_multiplicity=tuple(totals[layers[number]] if number in chosen_layers else 0 for number in numbers),
        stage_multiplicity=(1,) * len(kept_plans),
        classes=tuple(
            stage_class for stage_class, plan in zip(reduced.classes, plans, strict=True) if plan in kept_plans
        ),
    )


def head_alone(reduced: ReducedModel) -> ReducedModel:
    """Return the reduced model with only the stage of the output head, and without layers.

    The stage also has the embedding, because a model cannot be compiled without one. The result
    shows how long the head takes, and is much faster to compile than the layers.
    """
    (plan,) = (plan for plan in reduced.state.plans if plan.has_head)
    plan = replace(plan, wafer=0, has_embedding=True, first_layer=0, last_layer=0, first_part=0, last_part=LAYER_PARTS)
    spec = replace(reduced.state.spec, layers=())
    return ReducedModel(
        state=replace(reduced.state, spec=spec, graph=op_graph(spec, reduced.state.options.scope), plans=(plan,)),
        further_layers=(),
        layer_multiplicity=(),
        stage_multiplicity=(1,),
        classes=(None,),
    )


def _kinds(spec: ModelSpec, plan: StagePlan) -> Counter[tuple[Layer, Parts]]:
    """Count the layers of each kind in a stage.

    If a stage stores only parts of a layer, these parts are a separate kind.

    Args:
        spec: Model.
        plan: Stage, with the layers or parts of layers that it stores.

    Returns:
        Number of layers, keyed by (kind of layer, its parts in the stage).
    """
    return Counter((spec.layers[layer], parts) for layer, parts in plan.layers.parts)
