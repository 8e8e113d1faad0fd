"""Lower bounds on the cycle count of each step, which no software on this wafer can beat.

``wse estimate`` reports them next to the modelled cycles, to show what limits a model. There are
four bounds:

- ``sram``: bytes of weights and cache entries that a PE reads, divided by its SRAM bandwidth.
- ``arithmetic``: multiply-adds of a PE divided by its rate.
- ``hops``: cycles needed for the longest path of any word that a result depends on.
- ``crossing``: latency and bytes of a transfer between wafers, or to and from the host.

The bounds of consecutive steps add up. For concurrent steps, the largest bound counts. The bounds
apply to the given placement, including its padding. Weights that are read for several users count
once per user.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.expert_columns import ASSUMED, kernel_calls, pairs_by_column
from wse.backends.fabric.group_cost import first_steps
from wse.backends.fabric.step_classes import by_slots
from wse.backends.fabric.transfer_cost import max_peers
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.operands import VIEWS
from wse.program.isa.pe_costs import pe_costs
from wse.program.program import Program
from wse.program.steps import HOST, Phase, Slots, Steps
from wse.program.transfers.messages import LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of
from wse_mappings.cuts.split import RECEIVER, SENDER
from wse_mappings.schedule import Arrival, LineSchedule

BOUNDS: Final = ("sram", "arithmetic", "hops", "crossing")
NO_BOUND: Final = (0.0, 0.0, 0.0, 0.0)

Bound = tuple[float, float, float, float]


def reach(pattern: LineSchedule, variant: int, *, in_place: bool) -> int:
    """Return the maximum number of links from the origin of a value to a PE that it reaches.

    The origin is the PE that stored the value at the start of the pattern. If the value is added to
    others, the PEs that receive the sum count too.

    Args:
        pattern: The communication pattern.
        variant: Index of the list of messages that a line executes in a round.
        in_place: True if messages forward the words of earlier messages, so that distances add up.
            False if all messages send the initial values.
    """
    messages, _, parts = pattern.variant_messages(variant)
    wire = messages[messages[:, 2] != Arrival.COPY]
    if not in_place:
        return int(np.abs(wire[:, 1] - wire[:, 0]).max(initial=0))
    # The westernmost and easternmost origin of each part of the words on each PE.
    low = np.repeat(np.arange(pattern.length)[:, None], pattern.parts, axis=1)
    high = low.copy()
    farthest = 0
    for (source, target, arrival), part in zip(
        messages.tolist(), [0] * len(messages) if parts is None else parts.tolist(), strict=True
    ):
        if arrival == Arrival.COPY:
            continue
        first, last = int(low[source, part]), int(high[source, part])
        farthest = max(farthest, target - first, last - target)
        if arrival == Arrival.MULTICAST:
            path = slice(min(source, target), max(source, target) + 1)
            low[path, part], high[path, part] = first, last
        elif arrival == Arrival.REPLACE:
            low[target, part], high[target, part] = first, last
        elif arrival != Arrival.DROP:
            low[target, part], high[target, part] = min(low[target, part], first), max(high[target, part], last)
    return farthest


class PhaseBounds:
    """Lower bounds on the cycle count of each step of a Program (a compiled model), with a cache.

    No software on the wafer can run a step in fewer cycles than its bounds.
    """

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile) -> None:
        self.program, self.wafer = program, wafer
        costs = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._macs_per_cycle = costs.mac * software.bank_conflict_ratio  # the rate without bank conflicts
        self._bytes: Mapping[str, int] = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}
        self._reaches = cache(_reaches)
        self._of_any_slots: dict[tuple[Steps, int], Bound] = {}

    def of(self, phase: Phase, slots: Slots, classes: I64) -> F64:
        """Return lower bounds on the cycle count of every step, as float64 ``[steps, bounds]``.

        The columns are bounds for SRAM reads, arithmetic, hops and crossings, over all iterations
        of a step's loop. For steps that run concurrently, the row of the first step contains the
        maxima, and the other rows are 0.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
            classes: int64 ``[steps]``: for each step, the index of a step that costs the same, from
                ``Fabric.shape_classes``.
        """
        kinds, class_of_step = np.unique(classes, return_inverse=True)
        grows = by_slots(phase.steps)
        bounds_of_classes = [self._class_bounds(phase, step, slots, grows=bool(grows[step])) for step in kinds.tolist()]
        bounds = np.array(bounds_of_classes)[class_of_step].reshape(len(phase.steps), len(BOUNDS))
        groups = first_steps(phase.steps)
        group_maxima = np.zeros_like(bounds)
        group_maxima[groups] = np.maximum.reduceat(bounds, groups)
        return group_maxima

    def _class_bounds(self, phase: Phase, step: int, slots: Slots, *, grows: bool) -> Bound:
        """Return lower bounds on the cycle count of a step.

        They also hold for all steps of the same class, which cost the same. The bounds are cached
        for all passes, unless they increase with the cache slots in use.

        Args:
            phase: Prefill chunk, decode pass or verification pass of the Program.
            step: Index of the step.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.
            grows: Whether the bounds increase with the cache slots in use, so that they cannot be
                cached.
        """
        if grows:
            return self._step(phase, step, slots)
        key = (phase.steps, step)
        if key not in self._of_any_slots:
            self._of_any_slots[key] = self._step(phase, step, slots)
        return self._of_any_slots[key]

    def _step(self, phase: Phase, step: int, slots: Slots) -> Bound:
        """Return the bounds of one step in cycles, in the order sram, arithmetic, hops, crossing.

        A bound is the minimum number of cycles for one kind of work: reading weights and cache
        entries (sram), multiplying and adding (arithmetic), moving words over the mesh (hops), or
        moving words between wafers or to and from the host (crossing).
        """
        iterations = phase.steps.iterations(step)
        if phase.steps.computes(step):
            kernel, calls = kernel_calls(self.program, phase, step, slots)
            macs = sum(kernel.macs_of(call) * repeat for call, repeat in calls)
            read = sum(kernel.bytes_read(call, self._bytes) * repeat for call, repeat in calls)
            return read / self.wafer.sram_bytes_per_cycle, macs / self._macs_per_cycle, 0.0, 0.0
        transfer = transfer_of(self.program, phase, step, slots, chosen_wafers=self._chosen_wafers(phase, step))
        if transfer.leaves_wafer:
            return self._off_wafer(transfer, iterations)
        return 0.0, 0.0, float(self._links(transfer, iterations) * self.wafer.hop_cycles), 0.0

    def _chosen_wafers(self, phase: Phase, step: int) -> frozenset[int] | None:
        """Return the wafers that store experts to which a step's tokens are routed.

        The routing is ``Program.routing``. The result is None if the step does not depend on it.
        """
        if not phase.steps.depends_on_experts[step]:
            return None
        return self.program.chosen_wafers(
            int(phase.steps.stage[step]), pairs_by_column(self.program, phase, step, ASSUMED)
        )

    def _off_wafer(self, transfer: Transfer, iterations: int) -> Bound:
        """Return the lower bounds for a transfer between wafers, or to or from the host.

        Links between different pairs of wafers work in parallel. The wafer that sends to, or
        receives from, the most wafers therefore determines the bound. If no step waits for the
        transfer, all bounds are 0.
        """
        wafer = self.wafer
        if not transfer.crossings or not transfer.is_awaited:
            return NO_BOUND
        if any(HOST in pair for pair in transfer.crossings):
            seconds = transfer.crossing_bytes / wafer.host_bytes_per_s
        else:
            waits = transfer.link_latencies * wafer.wafer_link_latency_s
            seconds = waits + max_peers(transfer.crossings) * transfer.crossing_bytes / wafer.wafer_link_bytes_per_s
        return 0.0, 0.0, 0.0, iterations * seconds * wafer.clock_hz

    def _links(self, transfer: Transfer, iterations: int) -> int:
        """Return how many links the word of a transfer that travels farthest crosses.

        If a pattern or cache shift is repeated in a loop, the links of all iterations are added up.

        Args:
            transfer: Transfer of the first iteration.
            iterations: Number of iterations.
        """
        messages = transfer.messages
        if isinstance(messages, LineMessages):
            # The maximum number of links between a PE that provides a value and a PE that the value reaches.
            distances = self._reaches(messages.schedule, in_place=messages.in_place)
            variants = messages.schedule.variants
            return int(distances[variants[np.arange(iterations) % len(variants)]].max(axis=1).sum())
        if isinstance(messages, Translation):
            if transfer.in_memory:
                return 0
            source, target = transfer.site.placed_stage.rect, self.program.stages[messages.target_stage].rect
            col_distance = target.col + messages.target_col - source.col - messages.source_col
            row_distances = target.row + messages.pieces[:, RECEIVER] - source.row - messages.pieces[:, SENDER]
            return int(np.abs(row_distances).max()) + abs(col_distance)
        return iterations  # a cache shift: one row up


def _reaches(pattern: LineSchedule, *, in_place: bool) -> I64:
    """Return how many links values travel in each variant of a pattern, as int64 ``[variants]``.

    A variant is a list of messages that some lines execute. `reach` defines the distance. It is 0
    if no line uses the variant.
    """
    used_variants = set(np.unique(pattern.variants).tolist())
    links = [reach(pattern, v, in_place=in_place) if v in used_variants else 0 for v in range(len(pattern.first) - 1)]
    return np.array(links, np.int64)
