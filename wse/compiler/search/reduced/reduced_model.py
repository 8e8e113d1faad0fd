"""Reduced model: one stage of each class of equivalent stages, with one layer of each kind.

Compiling it takes as long as compiling a few layers. The result gives the bytes per PE of the whole
model exactly, and the time of its layers. A search uses it to exclude layouts that do not fit or
are slow before they are compiled fully.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.compiler.options import REPORT, Choice, Options, Rewrites
from wse.compiler.passes.allocate import aligned_bytes, element_bytes
from wse.compiler.passes.partition import placed_parts, plan_stages
from wse.compiler.passes.shard import tiling_of
from wse.compiler.pipeline import compile_until, first_state
from wse.compiler.search.reduced.least_bytes import least_bytes
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.state import StagePlan, State
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.graph import op_graph
from wse.models.spec import Layer, ModelSpec
from wse.program.isa.instructions import CODES
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import StepKind, Steps
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.layer_parts import Parts

_OF_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducedModel:
    """A model with one stage of each kind and one layer of each kind, and how often each occurs.

    A search compiles it instead of the whole model to compare layouts quickly.

    Attributes:
        state: State after the pass `partition`, or a later pass.
        further_layers: For each layer, the number of equivalent layers in its stage that are
            omitted.
        layer_multiplicity: For each layer, the number of layers of the model that it represents,
            over all stages.
        stage_multiplicity: For each stage, the number of stages of the model that it represents.
        classes: For each stage, a key of everything that determines its bytes, except options and
            choice. Equivalent stages of different reduced models have equal keys.
    """

    state: State
    further_layers: tuple[int, ...]
    layer_multiplicity: tuple[int, ...]
    stage_multiplicity: tuple[int, ...]
    classes: tuple[Hashable, ...]

    def compile_until(self, last: str) -> ReducedModel:
        """Return the reduced model after the passes up to a given one, without tiles and checks."""
        return replace(self, state=compile_until(last, self.state, WITHOUT_TILES, checked=False))

    def with_rewrites(self, rewrites: Rewrites) -> ReducedModel:
        """Return the reduced model with other rewrites in all phases, ready to be lowered again.

        The passes before lowering run again only if the weight tiles depend on the changed
        rewrites.
        """
        choice = replace(self.state.choice, rewrites=rewrites, verify_rewrites=None, trees=())
        state = replace(self.state, choice=choice)
        is_placed = self.state.last_pass != "partition"
        has_same_tiles = is_placed and tiling_of(state) == tiling_of(self.state)
        return replace(self, state=replace(state, last_pass="place" if has_same_tiles else "partition"))

    def allocate(self) -> ReducedModel:
        """Return the reduced model after all passes up to `allocate`, whether it fits or not.

        Raises:
            DoesNotFit: Patterns that run at the same time need more colours than there are.
        """
        lowered = self.compile_until("lower_ops")
        further_bytes = lowered._further_bytes(lowered.state)
        return replace(self, state=replace(lowered.state, further_bytes=further_bytes)).compile_until("allocate")

    def program(self) -> Program:
        """Return the Program, after `allocate`."""
        program = self.compile_until("emit").state.program
        assert program is not None
        return program

    def needed_bytes(self) -> list[int]:
        """Return the bytes per PE that each stage needs with all layers of the whole model.

        The reduced model must have been allocated (`allocate`).
        """
        state = self.state
        assert state.addresses is not None
        tops = [stage.sram_top_byte for stage in state.stages]
        bytes_by_stage = [top + further_bytes for top, further_bytes in zip(tops, state.further_bytes, strict=True)]
        for number, plan in enumerate(state.plans):
            if plan.experts:  # after the fullest of the other stages, whose end is known by now
                bytes_by_stage[number] += max(bytes_by_stage[:number]) - max(
                    s.sram_top_byte for s in state.stages[:number]
                )
        return bytes_by_stage

    def _further_bytes(self, state: State) -> tuple[int, ...]:
        """Return for each stage the bytes per PE of the layers that the reduced model omits."""
        bytes_by_stage = [0] * len(state.plans)
        for buffer in (*state.weights, *state.sym_buffers):
            layer = _OF_LAYER.search(buffer.name)
            if layer is not None and buffer.permanent:
                size = aligned_bytes(buffer.elements * element_bytes(state, buffer.view))
                bytes_by_stage[buffer.stage] += self._other_layers(buffer.stage, int(layer[1])) * size
        return tuple(bytes_by_stage)

    @property
    def stage_count(self) -> int:
        """Number of stages of the whole model through which a token passes one after another.

        A stage of experts on the PEs of the other stages does not count.
        """
        pairs = zip(self.stage_multiplicity, self.state.plans, strict=True)
        return sum(count for count, plan in pairs if not plan.experts)

    def users_that_fit(self) -> int:
        """Return how many users' KV caches fit in the fullest stage of the whole model.

        The reduced model must have been allocated (`allocate`). The result is at least the
        requested number of users if the model fits.
        """
        state = self.state
        caches = [0] * len(state.plans)
        for buffer in state.sym_buffers:
            if buffer.use == "kv":
                layer = _OF_LAYER.search(buffer.name)
                layers = 1 if layer is None else 1 + self._other_layers(buffer.stage, int(layer[1]))
                caches[buffer.stage] += layers * aligned_bytes(buffer.elements * element_bytes(state, buffer.view))
        needed_bytes = self.needed_bytes()
        if state.has_expert_stage:  # it uses the PEs of the other stages
            needed_bytes = [max(needed_bytes)] * len(needed_bytes)
        free = [state.wafer.sram_bytes_per_pe - stage_bytes for stage_bytes in needed_bytes]
        batch = state.options.batch
        return min(batch + batch * room // cache for room, cache in zip(free, caches, strict=True) if cache)

    def least_bytes(self) -> int:
        """Return a lower bound of the bytes that the fullest PE of the whole model needs."""

        def layers_like(stage: int, layer: int, tile: str) -> int:
            """Return how many equivalent tiles of the whole model's stage a tile represents."""
            return 1 + self._other_layers(stage, layer) if _OF_LAYER.search(tile) else 1

        return least_bytes(self.state, layers_like)

    def _other_layers(self, stage: int, layer: int) -> int:
        """Return how many equivalent layers of a stage the reduced model omits.

        For the stage that stores the experts of all layers, these are the layers of all stages.

        Args:
            stage: Index of the stage.
            layer: Index of the layer that represents them.
        """
        return self.layer_multiplicity[layer] - 1 if self.state.plans[stage].experts else self.further_layers[layer]

    def sum_over_model(self, program: Program, phase: Phase, by_step: F64) -> float:
        """Add up values per step, such as cycles, over the whole model.

        A step of a layer counts once for each layer that the layer represents. Transfers between
        stages and steps outside of layers count once for each stage that their stage represents.

        Args:
            program: Program of the reduced model.
            phase: Phase of the Program.
            by_step: float64 ``[steps]``: values, such as cycles.
        """
        layer, stage, is_once_per_stage = self._places(program, phase)
        times = np.where(
            is_once_per_stage, np.array(self.stage_multiplicity)[stage], np.array(self.layer_multiplicity)[layer]
        )
        return float(by_step @ times)

    def slowest_stage_sum(self, program: Program, phase: Phase, by_step: F64) -> float:
        """Return the maximum over all stages of the sum of values per step, for a prompt chunk.

        The final norm and the head are not included, because only the last chunk needs them. If the
        experts of all layers have a stage of their own on the same PEs, the sum over all stages is
        returned.

        Args:
            program: Program of the reduced model.
            phase: Phase of the Program.
            by_step: float64 ``[steps]``: values, such as cycles.
        """
        ops = zip(program.op_layers, program.op_kinds, strict=True)
        is_in_all_chunks = np.array([layer >= 0 or kind == "embedding" for layer, kind in ops])[phase.steps.op]
        by_step = np.where(is_in_all_chunks, by_step, 0.0)
        if self.state.has_expert_stage:
            return self.sum_over_model(program, phase, by_step)
        layer, stage, is_once_per_stage = self._places(program, phase)
        times = np.where(is_once_per_stage, 1, np.array(self.further_layers)[layer] + 1)
        return float(np.bincount(stage, by_step * times).max(initial=0.0))

    def _places(self, program: Program, phase: Phase) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Return the layer and the stage of each step, and whether it occurs once per stage.

        Returns:
            For each step of the phase: the index of its layer (-1 outside of layers), the index of
            its stage, and whether it occurs once per stage (True) or once per layer (False).
        """
        layer, stage = np.array(program.op_layers)[phase.steps.op], np.array(program.op_stages)[phase.steps.op]
        return layer, stage, (layer < 0) | _stage_transfers(phase.steps)


def most_common_layers(reduced: ReducedModel) -> ReducedModel:
    """Return the reduced model with only those stages that contain the most common layers.

    The remaining stages show how long layers take, but only a stage or two must be compiled.
    Transfers between stages are not represented, and the head is computed in one chunk. If the
    experts of all layers have a stage of their own, the model is returned unchanged.

    1. For each kind of layer, find the layer that represents the most layers. Layers that are split
       between stages count only if no layer of the kind is whole.
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


def _kinds(spec: ModelSpec, plan: StagePlan) -> Counter[tuple[Layer, Parts]]:
    """Count the layers of each kind in a stage.

    If a stage stores only parts of a layer, these parts are a separate kind.

    Returns:
        Keys are (kind of layer, its parts in the stage); values are numbers of layers.
    """
    return Counter((spec.layers[layer], parts) for layer, parts in plan.layers.parts)


def _stage_transfers(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps belong to a transfer of vectors to the next stage, bool ``[steps]``.

    Such steps are the transfer itself, the step that clears padding before the transfer, and the
    transfers that distribute the vectors in the next stage.
    """
    is_stage_transfer = is_of_type(steps, StageTransfer, Crossing)
    clears = (steps.kind == StepKind.COMPUTE) & (steps.code == CODES["clear"])
    for step in np.flatnonzero(is_stage_transfer).tolist():
        is_stage_transfer[step - 1] |= clears[step - 1]
        next_step = step + 1
        while (
            next_step < len(steps)
            and steps.kind[next_step] == StepKind.TRANSFER
            and steps.op[next_step] == steps.op[step]
        ):
            is_stage_transfer[next_step] = True
            next_step += 1
    return is_stage_transfer


def reduced_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> ReducedModel:
    """Return the reduced model, with one layer and stage of each kind, for a layout.

    The last two results are cached, because a search needs the model twice: to count its bytes, and
    to try the layout.

    Args:
        spec, wafer, software, options: Inputs of the compilation.
        choice: The choice, which determines the layout.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    return options.cache.of(_build_reduced_model, 2)(spec, wafer, software, options, choice)


def _build_reduced_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> ReducedModel:
    """Build the reduced model for a choice.

    1. Divide the layers over stages as in the whole model.
    2. Group the stages into classes. Stages of a class have the same numbers of rows, columns and
       layers of each kind, and the same tables. Either all or none of them follow a stage on
       another wafer. They differ only in their position and in the order of their layers. Stages at
       listed positions are classes of their own. The class of a stage of experts also depends on
       all other stages, because it uses memory after theirs.
    3. Keep the first stage of each class, and one layer of each kind in it. Parts of a layer are a
       kind of their own. Record the number of omitted layers of the kind in the stage, which
       determines SRAM, and in all stages, which determines the time. A stage that follows one on
       another wafer does so in the reduced model as well.

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
