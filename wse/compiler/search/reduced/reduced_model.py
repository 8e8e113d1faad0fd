"""Reduced model: one stage of each class of equivalent stages, with one layer of each kind.

Compiling it takes as long as compiling a few layers. The result gives the exact bytes per PE of the
whole model, and the time of its layers. A search uses it to exclude layouts that do not fit or are
slow before they are compiled fully.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.compiler.choice import Rewrites
from wse.compiler.options import PREFILL
from wse.compiler.passes.allocate import aligned_bytes
from wse.compiler.passes.tiling.op_tiles import tiling_of
from wse.compiler.pipeline import compile_until
from wse.compiler.search.reduced.min_bytes import min_bytes
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trials.trial import StepCycles
from wse.compiler.state import State
from wse.program.isa.instructions import CODES
from wse.program.program import Program
from wse.program.steps import Phase, StepKind, Steps
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.cache_balance import CacheBalance

_OF_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducedModel:
    """A model with one stage and one layer of each kind, and the number of times each occurs.

    A search compiles this model instead of the whole model to compare layouts quickly. A stage is
    the layers, or parts of layers, that one region of PEs stores.

    Attributes:
        state: State after the pass `partition`, or a later pass.
        further_layers: For each layer, the number of omitted equivalent layers in its stage.
        layer_multiplicity: For each layer, the number of layers in the whole model that it
            represents, over all stages.
        stage_multiplicity: For each stage, the number of stages in the whole model that it
            represents.
        classes: For each stage, a key that covers everything that determines its bytes except
            options and choice. Equivalent stages of different reduced models have equal keys.
    """

    state: State
    further_layers: tuple[int, ...]
    layer_multiplicity: tuple[int, ...]
    stage_multiplicity: tuple[int, ...]
    classes: tuple[Hashable, ...]

    @property
    def place_key(self) -> Hashable:
        """A key that is equal for layouts with equivalent regions, which need equal bytes and cycles."""
        return self.classes, self.stage_multiplicity, self.layer_multiplicity, self.state.options.experts

    def compile_until(self, last: str) -> ReducedModel:
        """Return the reduced model after all compiler passes up to a given one.

        Weight tiles are not created, and the state is not checked after each pass.

        Args:
            last: Name of the last compiler pass to run.
        """
        return replace(self, state=compile_until(last, self.state, WITHOUT_TILES, checked=False))

    def with_rewrites(self, rewrites: Rewrites) -> ReducedModel:
        """Return the reduced model with other rewrites in all phases, ready to be lowered again.

        Lowering translates ops to steps. The passes before it run again only if the weight tiles
        depend on the changed rewrites.
        """
        choice = replace(self.state.choice, rewrites=rewrites, verify_rewrites=None, trees=())
        state = replace(self.state, choice=choice)
        is_placed = self.state.last_pass != "partition"
        has_same_tiles = is_placed and tiling_of(state) == tiling_of(self.state)
        return replace(self, state=replace(state, last_pass="place" if has_same_tiles else "partition"))

    def allocate(self) -> ReducedModel:
        """Return the reduced model after all passes up to `allocate`, whether it fits or not.

        Raises:
            DoesNotFit: Patterns that run concurrently need more colours than are available.
        """
        lowered = self.compile_until("lower_ops")
        further_bytes = lowered._further_bytes()
        return replace(self, state=replace(lowered.state, further_bytes=further_bytes)).compile_until("allocate")

    def program(self) -> Program:
        """Return the Program of the reduced model, which must have been allocated (`allocate`)."""
        program = self.compile_until("emit").state.program
        assert program is not None
        return program

    def needed_bytes(self) -> list[int]:
        """Return how many bytes per PE each stage needs with all layers of the whole model.

        The KV caches of all users for whom the request reserves room (``Options.cache_tokens``) are
        included, not only those decoded together. The reduced model must be the result of
        `allocate`.
        """
        options = self.state.options
        return self._bytes_with_caches(options.planned_cache_tokens / (options.context * options.batch))

    def _bytes_with_caches(self, passes: float) -> list[int]:
        """Return the bytes per PE of each stage, including the KV caches of several user batches.

        Args:
            passes: Number of passes (runs of decode, each for its own batch of users) whose caches
                are counted; may be a fraction.
        """
        state = self.state
        assert state.addresses is not None
        tops = [stage.sram_top_byte for stage in state.stages]
        bytes_by_stage = [
            top + further_bytes + math.ceil((passes - 1) * (cache + user_state))
            for top, further_bytes, (cache, user_state) in zip(
                tops, state.further_bytes, self._user_bytes(), strict=True
            )
        ]
        for number, plan in enumerate(state.plans):
            if plan.experts:  # after the fullest of the other stages, whose end is known by now
                bytes_by_stage[number] += max(bytes_by_stage[:number]) - max(
                    s.sram_top_byte for s in state.stages[:number]
                )
        return bytes_by_stage

    def _user_bytes(self) -> list[tuple[int, int]]:
        """Return the bytes per PE of the KV caches and of the states of one pass, for each stage.

        All layers of the stage in the whole model are counted.
        """
        state = self.state
        sizes = {use: [0] * len(state.plans) for use in ("kv", "state")}
        for buffer in state.sym_buffers:
            if buffer.use in sizes:
                layer = _OF_LAYER.search(buffer.name)
                layers = 1 if layer is None else 1 + self._other_layers(buffer.stage, int(layer[1]))
                size = aligned_bytes(buffer.elements * state.options.element_bytes(buffer.view))
                sizes[buffer.use][buffer.stage] += layers * size
        return list(zip(sizes["kv"], sizes["state"], strict=True))

    def _further_bytes(self) -> tuple[int, ...]:
        """Return, for each stage, the bytes per PE of its layers that are not in the reduced model."""
        state, bytes_by_stage = self.state, [0] * len(self.state.plans)
        for buffer in (*state.weights, *state.sym_buffers):
            layer = _OF_LAYER.search(buffer.name)
            if layer is not None and buffer.permanent:
                size = aligned_bytes(buffer.elements * state.options.element_bytes(buffer.view))
                bytes_by_stage[buffer.stage] += self._other_layers(buffer.stage, int(layer[1])) * size
        return tuple(bytes_by_stage)

    @property
    def stage_count(self) -> int:
        """Number of pipeline stages of the whole model.

        A stage is the layers on one rectangle of PEs. If the experts of all layers form a separate
        stage on the same PEs as the other stages, it is not counted.
        """
        pairs = zip(self.stage_multiplicity, self.state.plans, strict=True)
        return sum(count for count, plan in pairs if not plan.experts)

    def users_that_fit(self, tokens: int, prefix_tokens: int) -> int:
        """Return how many users' KV caches and states fit in the fullest stage of the whole model.

        Each PE stores a shared prefix once, up to its last token that fills a slot of all PE rows.

        The reduced model must have been allocated (`allocate`). If the model fits, the result is at
        least the number of users of the request. Otherwise it is 0.

        Args:
            tokens: Tokens in each user's KV cache, at most the context of the request.
            prefix_tokens: Tokens at the start of every prompt that all users share.
        """
        state, pass_bytes = self.state, self._bytes_with_caches(1)
        if state.has_expert_stage:  # it uses the PEs of the other stages
            pass_bytes = [max(pass_bytes)] * len(pass_bytes)
        free = [state.wafer.sram_bytes_per_pe - stage_bytes for stage_bytes in pass_bytes]
        if min(free) < 0:
            return 0
        users = []
        for stage, room, (cache, user_state) in zip(state.stages, free, self._user_bytes(), strict=True):
            if cache or user_state:
                slots, used_slots = (
                    CacheBalance.slots_after(n, stage.rect.rows) for n in (state.options.context, tokens)
                )
                shared_slots = CacheBalance.shared_slots(prefix_tokens, tokens, stage.rect.rows)
                needed_bytes = (used_slots - shared_slots) * cache + slots * user_state
                free_bytes = state.options.batch * slots * (cache + user_state + room) - shared_slots * cache
                users.append(free_bytes // needed_bytes)
        return min(users)

    def min_bytes(self) -> int:
        """Return a lower bound on the bytes needed on the fullest PE of the whole model."""

        def tile_multiplicity(stage: int, layer: int, tile: str) -> int:
            """Return how many tiles of the whole model one tile of the reduced model represents.

            Args:
                stage: Index of the stage.
                layer: Index of the layer.
                tile: Name of the tile.
            """
            return 1 + self._other_layers(stage, layer) if _OF_LAYER.search(tile) else 1

        return min_bytes(self.state, tile_multiplicity)

    def _other_layers(self, stage: int, layer: int) -> int:
        """Return how many equivalent layers the reduced model omits.

        These are equivalent layers of the same stage. If the stage stores the experts of all
        layers, equivalent layers of all stages are counted.

        Args:
            stage: Index of the stage.
            layer: Index of the layer that represents these layers.
        """
        return self.layer_multiplicity[layer] - 1 if self.state.plans[stage].experts else self.further_layers[layer]

    def sum_over_model(self, program: Program, phase: Phase, by_step: F64) -> float:
        """Add up per-step values, such as cycles, over the whole model.

        A step of a layer counts once for each layer that the layer represents. Transfers between
        stages and steps outside layers count once for each stage that their stage represents.

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

    def busiest_cycles(self, program: Program, phase: Phase, cycles: StepCycles) -> float:
        """Return the cycles for which a phase keeps its busiest stage or link busy.

        Stages and links work on different prompt chunks or passes at the same time, so the busiest
        one determines when the next chunk can follow. A transfer to the next stage keeps its sender
        busy until it is launched, and then its link. (Its hops are counted, although they keep no
        link busy.) The latency of a link between wafers keeps neither busy. In prefill, the final norm
        and the head are not included, because only the last chunk needs them. If the experts of all
        layers have a separate stage on the same PEs, the sum over all stages is returned.

        Args:
            program: Program of the reduced model.
            phase: Phase of the Program.
            cycles: Cycle counts of the steps of the phase.
        """
        if phase.name == PREFILL:
            counts = ~head_steps(program, phase)
            cycles = StepCycles(cycles.all * counts, cycles.launch * counts)
        if self.state.has_expert_stage:
            return self.sum_over_model(program, phase, cycles.all)
        layer, _, is_once_per_stage = self._places(program, phase)
        times = np.where(is_once_per_stage, 1, np.array(self.further_layers)[layer] + 1)
        is_transfer, is_crossing = is_of_type(phase.steps, StageTransfer, Crossing), is_of_type(phase.steps, Crossing)
        stage_cycles = np.where(is_transfer, cycles.launch, cycles.all) * times
        latency_cycles = self.state.wafer.wafer_link_latency_s * self.state.wafer.clock_hz
        link_cycles = np.where(is_transfer, cycles.all - cycles.launch - is_crossing * latency_cycles, 0.0)
        stage_sums = np.bincount(phase.steps.stage, stage_cycles)
        return float(max(stage_sums.max(initial=0.0), link_cycles.max(initial=0.0)))

    def _places(self, program: Program, phase: Phase) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Return the layer and stage of each step, and whether the step counts once per stage.

        Args:
            program: Program of the reduced model.
            phase: Phase of the Program.

        Returns:
            For each step of the phase: the index of its layer (-1 outside layers), the index of its
            stage, and a bool. The bool is True for steps outside layers and transfers to the next
            stage, which the whole model runs once per stage. It is False for steps that run once
            per layer.
        """
        layer, stage = np.array(program.op_layers)[phase.steps.op], np.array(program.op_stages)[phase.steps.op]
        return layer, stage, (layer < 0) | stage_transfers(phase.steps)


def head_steps(program: Program, phase: Phase) -> npt.NDArray[np.bool_]:
    """Return which steps of a phase belong to the final norm or the output head, bool ``[steps]``.

    Transfers to the stage of the head and of the token ids back to the embedding are included.
    """
    ops = zip(program.op_layers, program.op_kinds, strict=True)
    is_head = [layer < 0 and kind != "embedding" for layer, kind in ops]
    return np.asarray(np.array(is_head)[phase.steps.op], np.bool_)


def stage_transfers(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps belong to a transfer of vectors to the next stage, bool ``[steps]``.

    Such a transfer consists of the step that sends the vectors, a preceding step that clears
    padding (if there is one), and the following transfers that distribute the vectors in the next
    stage.
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
