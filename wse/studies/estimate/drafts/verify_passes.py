"""Timing of verification passes, which run a model over several new tokens of one user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.search.search import Compilation
from wse.program.program import Program
from wse.program.steps import Phase
from wse.serving.route import PassRoute, busy_cycles
from wse.studies.compile.choose import pass_fabric
from wse.studies.estimate.drafts.placement import PlacedDraft
from wse.studies.estimate.timing.servers import REGION
from wse.studies.estimate.timing.stage_times import RouteReader, pass_time
from wse.studies.options.basis import PreparedPlacement
from wse.studies.options.drafts.draft import HEAD

OUTSIDE: Final = -1
"""Layer number of ops outside all layers, such as the embedding and the output table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPass:
    """Times of a verification pass, which runs the model over several new tokens of one user.

    All times are in seconds. A draft head is an additional layer of the model that proposes tokens.
    A stage is a part of the model, stored on one region of PEs.

    Attributes:
        model_s: Time of the pass through all stages, without the layer of a draft head.
        head_s: Time for the head to propose a token: its layer, and the steps outside all layers,
            such as the output. It is 0 without a head.
        busy_s: Time for which the pass occupies the slowest stage or link.
        last_stage_s: Time for which the pass occupies the last stage, without the layer of a draft
            head.
    """

    model_s: float
    head_s: float
    busy_s: float
    last_stage_s: float

    def busy_with(self, drafts_s: float, *, on_last_stage: bool) -> float:
        """Return the minimum seconds between the starts of two passes, including their drafts.

        It is the time for which a pass occupies the busiest resource: a pipeline stage, a link, or
        the source of draft tokens.

        Args:
            drafts_s: Time to draft all tokens of the pass, in seconds.
            on_last_stage: Whether drafting occupies the last stage in addition to the stage's own
                work.
        """
        return max(self.busy_s, drafts_s + (self.last_stage_s if on_last_stage else 0.0))


class VerifyPasses:
    """Timing of the verification passes of a model, cached by context and number of new tokens.

    A verification pass runs the model over several new tokens of one user. It is compiled once for
    each number of new tokens, on the same regions of PEs as the model.
    """

    def __init__(self, prepared_placement: PreparedPlacement, compilation: Compilation, *, has_head: bool) -> None:
        """Store a compiled model; its verification passes are timed when they are requested.

        Args:
            prepared_placement: The loaded model, its wafer and the options of the compiler.
            compilation: The compiled model.
            has_head: Whether the last layer is a draft head, which proposes tokens. Its time is
                then reported separately.
        """
        self._prepared, self._compilation, self._has_head = prepared_placement, compilation, has_head
        self._readers: dict[int, tuple[Fabric, RouteReader]] = {}
        self._passes: dict[tuple[int, int], VerifyPass] = {}

    def in_the_middle(self, tokens: int) -> VerifyPass:
        """Return the times of a pass over ``tokens`` new tokens, halfway through the answer.

        Args:
            tokens: Number of new tokens, at least 2.
        """
        return self.pass_after(self._prepared.middle_context[0], tokens)

    def pass_after(self, context: int, tokens: int) -> VerifyPass:
        """Return the times of a pass over ``tokens`` new tokens of one user.

        Args:
            context: Tokens in the KV cache before the pass. The number is reduced if the cache
                would have no room for the new tokens.
            tokens: New tokens, at least 2.
        """
        context = min(context, self._compilation.options.context - tokens)
        if (context, tokens) not in self._passes:
            self._passes[context, tokens] = self._pass(context, tokens)
        return self._passes[context, tokens]

    def _pass(self, context: int, tokens: int) -> VerifyPass:
        """Time a pass over ``tokens`` new tokens, after ``context`` tokens in the KV cache."""
        fabric, reader = self._compiled(tokens)
        phase, cost, clock_hz = fabric.program.verify[0], fabric.verify_cost(context), self._prepared.wafer.clock_hz
        route = reader.route(phase, cost)
        head_layer_cycles = outside_cycles = 0.0
        if self._has_head:
            head_layer_cycles = layer_cycles(fabric.program, phase, cost, self._prepared.spec.layer_count - 1)
            outside_cycles = layer_cycles(fabric.program, phase, cost, OUTSIDE)
        time = pass_time(reader, self._prepared.wafer, route)
        return VerifyPass(
            model_s=time.latency_s - head_layer_cycles / clock_hz,
            head_s=(head_layer_cycles + outside_cycles) / clock_hz,
            busy_s=time.busy_s,
            last_stage_s=(_last_stage_cycles(reader, route) - head_layer_cycles) / clock_hz,
        )

    def _compiled(self, tokens: int) -> tuple[Fabric, RouteReader]:
        """Return the timing model for passes over a number of new tokens, from a cache if possible.

        Args:
            tokens: Number of new tokens per pass.

        Returns:
            The timing model, and an object that converts the times of a pass to the times for which
            it occupies pipeline stages and links.
        """
        if tokens not in self._readers:
            fabric = pass_fabric(self._prepared, self._compilation, tokens)
            self._readers[tokens] = fabric, RouteReader(fabric)
        return self._readers[tokens]


def verify_passes(prepared_placement: PreparedPlacement, compilation: Compilation, draft: PlacedDraft) -> VerifyPasses:
    """Return the timing of the passes that verify the drafts of a request.

    A draft head is an additional layer of the model. If drafts come from a head, the passes are
    timed on the model compiled with its head.

    Args:
        prepared_placement: The loaded model without a head, its wafer and the options.
        compilation: The model compiled without a head.
        draft: The draft head or draft model, compiled for the PEs or the host on which it runs.
    """
    if draft.name == HEAD and draft.compilation is not None:
        return VerifyPasses(draft.prepared, draft.compilation, has_head=True)
    return VerifyPasses(prepared_placement, compilation, has_head=False)


def layer_cycles(program: Program, phase: Phase, cost: PhaseCost, layer: int) -> float:
    """Return the cycles that the steps of one layer take in a phase.

    Args:
        program: Compiled Program.
        phase: Phase of the Program.
        cost: Cycle count of each step of the phase.
        layer: Index of the layer, or `OUTSIDE` for the steps outside all layers.
    """
    layer_of_step = np.array(program.op_layers)[phase.steps.op]
    return float(cost.by_step[layer_of_step == layer].sum())


def _last_stage_cycles(reader: RouteReader, route: PassRoute) -> float:
    """Return the cycles for which a pass occupies the last rectangle of PEs that it goes through.

    Args:
        reader: Description of all resources (rectangles of PEs and links) of the Program.
        route: Resources that the pass occupies, in order, with times.
    """
    last = next(visit.server for visit in reversed(route) if reader.servers[visit.server].kind == REGION)
    return busy_cycles([route])[last]
