"""A condensed model: one stage of each class of equal stages, and in a stage one layer of each kind.

A small compilation tells what each PE of the whole one is asked to hold, to the byte, and how long its layers take, at
the price of a few layers: what does not fit and what is slow is left out of the search before it is compiled.
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
from wse.compiler.options import REPORT, Choice, Options, Rewrites, Trees
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
from wse.program.steps import Kind, Steps
from wse.program.transfers.kinds import of_kind
from wse.program.transfers.stage_streams import Crossing, HandOver
from wse_mappings.cuts.layer_parts import Parts

_OF_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CondensedModel:
    """A reduced model (one layer of each kind per kind of stage), partitioned for one choice.

    Attributes:
        state: After the pass partition, or further passes (`compile_until`, `allocate`). Its layers are one of each
            kind for each stage.
        further_layers: By layer, the number of further ones of its kind in its stage.
        layer_multiplicity: By layer, how many layers of the model it stands for, over all stages.
        stage_multiplicity: By stage, how many stages of the model it stands for.
        classes: By stage, all that its bytes go by but for the choice and the options; equal in all condensed models.
    """

    state: State
    further_layers: tuple[int, ...]
    layer_multiplicity: tuple[int, ...]
    stage_multiplicity: tuple[int, ...]
    classes: tuple[Hashable, ...]

    def compile_until(self, last: str) -> CondensedModel:
        """Run the passes up to and including the named one, without tiles and checks."""
        return replace(self, state=compile_until(last, self.state, WITHOUT_TILES, checked=False))

    def with_rewrites(self, rewrites: Rewrites, trees: Trees = ()) -> CondensedModel:
        """Return the reduced model with other rewrites in every phase."""
        choice = replace(self.state.choice, rewrites=rewrites, verify_rewrites=None, trees=trees)
        state = replace(self.state, choice=choice)
        is_placed = self.state.last_pass != "partition"
        has_same_tiles = is_placed and tiling_of(state) == tiling_of(self.state)
        return replace(self, state=replace(state, last_pass="place" if has_same_tiles else "partition"))

    def allocate(self) -> CondensedModel:
        """Return the reduced model after all passes except the last, whether it fits or not.

        Raises DoesNotFit where patterns that overlap need more colours than there are.
        """
        lowered = self.compile_until("lower_ops")
        further_bytes = lowered._further_bytes(lowered.state)
        return replace(self, state=replace(lowered.state, further_bytes=further_bytes)).compile_until("allocate")

    def program(self) -> Program:
        """Return the Program, once `allocate`."""
        program = self.compile_until("emit").state.program
        assert program is not None
        return program

    def needed_bytes(self) -> list[int]:
        """Return the bytes per PE that each stage of the whole model needs, after `allocate`."""
        state = self.state
        assert state.addresses is not None
        tops = [stage.sram_top_byte for stage in state.stages]
        needed = [top + further for top, further in zip(tops, state.further_bytes, strict=True)]
        for number, plan in enumerate(state.plans):
            if plan.experts:  # above the fullest of the others, which is the last to be known
                needed[number] += max(needed[:number]) - max(s.sram_top_byte for s in state.stages[:number])
        return needed

    def _further_bytes(self, state: State) -> tuple[int, ...]:
        """Return the bytes of the layers that the reduced model leaves out, by stage, after the pass lower_ops."""
        further = [0] * len(state.plans)
        for buffer in (*state.weights, *state.sym_buffers):
            layer = _OF_LAYER.search(buffer.name)
            if layer is not None and buffer.permanent:
                size = aligned_bytes(buffer.elements * element_bytes(state, buffer.view))
                further[buffer.stage] += self._other_layers(buffer.stage, int(layer[1])) * size
        return tuple(further)

    @property
    def stage_count(self) -> int:
        """Stages of the whole model that a pass visits one after another."""
        pairs = zip(self.stage_multiplicity, self.state.plans, strict=True)
        return sum(count for count, plan in pairs if not plan.experts)

    def users_that_fit(self) -> int:
        """Return the number of users whose KV caches fit in the fullest stage of the whole model, after `allocate`."""
        state = self.state
        caches = [0] * len(state.plans)
        for buffer in state.sym_buffers:
            if buffer.use == "kv":
                layer = _OF_LAYER.search(buffer.name)
                layers = 1 if layer is None else 1 + self._other_layers(buffer.stage, int(layer[1]))
                caches[buffer.stage] += layers * aligned_bytes(buffer.elements * element_bytes(state, buffer.view))
        needed_bytes = self.needed_bytes()
        if state.has_expert_stage:  # on the PEs of others
            needed_bytes = [max(needed_bytes)] * len(needed_bytes)
        free = [state.wafer.sram_bytes_per_pe - needed for needed in needed_bytes]
        batch = state.options.batch
        return min(batch + batch * room // cache for room, cache in zip(free, caches, strict=True) if cache)

    def least_bytes(self) -> int:
        """Return a lower bound of the bytes of the fullest PE of the whole model."""

        def layers_like(stage: int, layer: int, tile: str) -> int:
            return 1 + self._other_layers(stage, layer) if _OF_LAYER.search(tile) else 1

        return least_bytes(self.state, layers_like)

    def _other_layers(self, stage: int, layer: int) -> int:
        """Return the number of further layers of the same kind whose weights, or experts, the stage stores."""
        return self.layer_multiplicity[layer] - 1 if self.state.plans[stage].experts else self.further_layers[layer]

    def sum_over_model(self, program: Program, phase: Phase, by_step: F64) -> float:
        """Return a sum over the whole model of values per step, each weighted by the number of times that the step
        occurs.

        A layer's steps are there as often as it stands for; those that hand tokens over to a stage, and those outside
        of the layers, as often as there are such stages.
        """
        layer, stage, of_stage = self._places(program, phase)
        times = np.where(of_stage, np.array(self.stage_multiplicity)[stage], np.array(self.layer_multiplicity)[layer])
        return float(by_step @ times)

    def slowest_stage_sum(self, program: Program, phase: Phase, by_step: F64) -> float:
        """Return the largest sum per stage of values per step, for a prompt chunk that others follow.

        The final norm and the head are of the last chunk alone. The sum of all stages where these have the same PEs.
        """
        ops = zip(program.op_layers, program.op_kinds, strict=True)
        of_all_chunks = np.array([layer >= 0 or kind == "embedding" for layer, kind in ops])[phase.steps.op]
        by_step = np.where(of_all_chunks, by_step, 0.0)
        if self.state.has_expert_stage:
            return self.sum_over_model(program, phase, by_step)
        layer, stage, of_stage = self._places(program, phase)
        times = np.where(of_stage, 1, np.array(self.further_layers)[layer] + 1)
        return float(np.bincount(stage, by_step * times).max(initial=0.0))

    def _places(self, program: Program, phase: Phase) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Return layer and stage of each step, int64, and whether the step occurs once per stage instead of once per
        layer.
        """
        layer, stage = np.array(program.op_layers)[phase.steps.op], np.array(program.op_stages)[phase.steps.op]
        return layer, stage, (layer < 0) | _hand_overs(phase.steps)


def commonest_layers(small: CondensedModel) -> CondensedModel:
    """Return the stages that represent the most layers of each kind, one after another, with embedding and head.

    They tell what layers take, at the price of a stage or two, and nothing of hand-overs; the head is there in one
    chunk. Experts on all wafers stay where they are: a model that has them so is as it was.
    """
    plans, layers = small.state.plans, small.state.spec.layers
    if any(plan.experts for plan in plans):
        return small
    held = dict(of_layer for plan in plans for of_layer in plan.layers.parts)
    whole = {kind for number, kind in enumerate(layers) if held[number].is_whole}
    totals, commonest = Counter[Layer](), dict[Layer, int]()
    for number, (kind, count) in enumerate(zip(layers, small.layer_multiplicity, strict=True)):
        if kind in whole and not held[number].is_whole:
            continue
        totals[kind] += count
        if kind not in commonest or count > small.layer_multiplicity[commonest[kind]]:
            commonest[kind] = number
    chosen = sorted(commonest.values())
    kept = [plan for plan in plans if any(plan.first_layer <= number < plan.last_layer for number in chosen)]
    numbers = [number for plan in kept for number in range(plan.first_layer, plan.last_layer)]
    ends = [0, *accumulate(plan.last_layer - plan.first_layer for plan in kept)]
    spans = [0, *accumulate(plan.span for plan in kept)]
    spec = replace(small.state.spec, layers=tuple(layers[number] for number in numbers))
    stages = tuple(
        replace(
            plan,
            wafer=spans[i],
            first_layer=ends[i],
            last_layer=ends[i + 1],
            has_embedding=i == 0,
            has_head=i == len(kept) - 1,
        )
        for i, plan in enumerate(kept)
    )
    return CondensedModel(
        state=replace(
            small.state,
            spec=spec,
            graph=op_graph(spec, small.state.options.scope, placed_parts(stages)),
            choice=replace(small.state.choice, head_chunk=spec.vocab_size),
            plans=stages,
        ),
        further_layers=tuple(small.further_layers[number] for number in numbers),
        layer_multiplicity=tuple(totals[layers[number]] if number in chosen else 0 for number in numbers),
        stage_multiplicity=(1,) * len(kept),
        classes=tuple(kind for kind, plan in zip(small.classes, plans, strict=True) if plan in kept),
    )


def _kinds(spec: ModelSpec, plan: StagePlan) -> Counter[tuple[Layer, Parts]]:
    """Return the layers of a stage grouped by kind and by the parts of a layer that the stage has."""
    return Counter((spec.layers[layer], parts) for layer, parts in plan.layers.parts)


def _hand_overs(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps send data to the next stage or prepare and distribute it, bool ``[steps]``."""
    handing = of_kind(steps, HandOver, Crossing)
    clears = (steps.kind == Kind.COMPUTE) & (steps.code == CODES["clear"])
    for step in np.flatnonzero(handing).tolist():
        handing[step - 1] |= clears[step - 1]
        after = step + 1
        while after < len(steps) and steps.kind[after] == Kind.TRANSFER and steps.op[after] == steps.op[step]:
            handing[after] = True
            after += 1
    return handing


def condense(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> CondensedModel:
    """Return the reduced model for a choice.

    The last two are cached, because bytes are counted before a layout is tried.
    """
    return options.cache.of(_condense, 2)(spec, wafer, software, options, choice)


def _condense(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> CondensedModel:
    """Build the reduced model for a choice.

    1. Layers are divided over stages as in the whole.
    2. Stages are of one class where they have as many rows, columns and layers of each kind, the same tables, and all
       of them, or none, follow a stage of another wafer. Stages of a class differ in their places and in the order of
       layers alone. Those whose place is listed are each a class, so that none takes another's place; one of experts
       stands above all others, whatever these are.
    3. Of each class the first stage stays, and of each kind of its layers one; parts of a layer are a kind of their
       own. It is noted how many more of the kind the stage has, which its SRAM holds, and how many the layer stands
       for in all, which the time counts. A stage that follows one of another wafer is on another wafer in small too.

    Raises BadMesh where the mesh has no room for its regions.
    """
    # 1. The whole, divided.
    whole = plan_stages(first_state(spec, wafer, software, options, choice))
    # 2. Classes of equal stages.
    classes: dict[tuple[object, ...], list[StagePlan]] = defaultdict(list)
    crossings = [not b.experts and b.wafer != a.wafer for a, b in pairwise(whole.plans)]
    for plan, crosses in zip(whole.plans, (False, *crossings), strict=True):
        kinds = _kinds(spec, plan)
        place = plan.corner and (plan.wafer, *plan.corner)
        tables = plan.has_embedding, plan.has_head
        shape = plan.rows, plan.cols, plan.span
        below = whole.plans if plan.experts else ()
        classes[crosses, place, shape, tables, frozenset(kinds.items()), below].append(plan)
    # 3. One of each.
    layers: list[Layer] = []
    further_layers, layer_multiplicity, plans, on_wafer = [], [], [], 0
    for (enters_wafer, *_), stages in classes.items():
        first = len(layers)
        for (layer, _), count in _kinds(spec, stages[0]).items():
            layers.append(layer)
            further_layers.append(count - 1)
            layer_multiplicity.append(count * len(stages))
        on_wafer += bool(enters_wafer)
        at = stages[0].wafer if stages[0].experts else on_wafer
        plans.append(replace(stages[0], first_layer=first, last_layer=len(layers), wafer=at))
    small = replace(spec, layers=tuple(layers))
    state = replace(
        whole,
        spec=small,
        options=replace(options, capacity=REPORT),
        graph=op_graph(small, options.scope, placed_parts(plans)),
        plans=tuple(plans),
        last_pass="partition",
    )
    return CondensedModel(
        state=state,
        further_layers=tuple(further_layers),
        layer_multiplicity=tuple(layer_multiplicity),
        stage_multiplicity=tuple(map(len, classes.values())),
        classes=tuple(classes),
    )
