"""Cycles below which no software gets a step on this wafer: what its PEs read, multiply, and how far words must go.

``sram``: weights and cache entries that a PE reads, over the bytes that its SRAM gives in a cycle. ``arithmetic``: its
multiply-adds over their rate. ``hops``: the longest way that anything in the result has come, times a hop.
``crossing``: latency and bytes of a stream between wafers, or to and from the host. Each holds for steps one after
another; of steps that run together the largest counts. They are bounds of what is placed, padding included, and what
the steps of several users read counts for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.expert_costs import EVEN, by_column, kernel_calls
from wse.backends.fabric.group_cost import first_steps
from wse.backends.fabric.step_classes import by_slots
from wse.backends.fabric.step_cost import most_peers
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.operands import VIEWS
from wse.program.isa.pe_costs import pe_costs
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import HOST, Slots, Steps
from wse.program.transfers.kinds import transfer_of
from wse.program.transfers.messages import LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse_mappings.cuts.recut import RECEIVER, SENDER
from wse_mappings.schedule import Arrival, LineSchedule

BOUNDS: Final = ("sram", "arithmetic", "hops", "crossing")
NO_BOUND: Final = (0.0, 0.0, 0.0, 0.0)

Bound = tuple[float, float, float, float]


def reach(pattern: LineSchedule, variant: int, *, in_place: bool) -> int:
    """Return the maximum distance, in links, of the words that the messages of a variant combine on a PE.

    ``in_place``: messages send on what earlier ones brought; else all send what was there before.
    """
    messages, _, parts = pattern.of_variant(variant)
    wire = messages[messages[:, 2] != Arrival.COPY]
    if not in_place:
        return int(np.abs(wire[:, 1] - wire[:, 0]).max(initial=0))
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
            passed = slice(min(source, target), max(source, target) + 1)
            low[passed, part], high[passed, part] = first, last
        elif arrival == Arrival.REPLACE:
            low[target, part], high[target, part] = first, last
        elif arrival != Arrival.DROP:
            low[target, part], high[target, part] = min(low[target, part], first), max(high[target, part], last)
    return farthest


class PhaseBounds:
    """Lower bounds of the steps of a Program's phases, with a cache."""

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile) -> None:
        self.program, self.wafer = program, wafer
        unhindered = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._macs_per_cycle = unhindered.mac * software.bank_conflict_ratio
        self._bytes: Mapping[str, int] = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}
        self._reaches = cache(_reaches)
        self._of_any_slots: dict[tuple[Steps, int], Bound] = {}

    def of(self, phase: Phase, slots: Slots, classes: I64) -> F64:
        """Return the lower bounds in cycles of every step over all iterations, float64 ``[steps, bounds]``.

        ``classes`` int64 ``[steps]`` names for each step one that costs the same, as ``Fabric.shape_classes`` does.
        """
        kinds, which = np.unique(classes, return_inverse=True)
        grows = by_slots(phase.steps)
        known = [self._of_class(phase, step, slots, grows=bool(grows[step])) for step in kinds.tolist()]
        bounds = np.array(known)[which].reshape(len(phase.steps), len(BOUNDS))
        groups = first_steps(phase)
        most = np.zeros_like(bounds)
        most[groups] = np.maximum.reduceat(bounds, groups)
        return most

    def _of_class(self, phase: Phase, step: int, slots: Slots, *, grows: bool) -> Bound:
        """Return the bounds of a step; ``grows``: whether they depend on cache slots."""
        if grows:
            return self._step(phase, step, slots)
        key = (phase.steps, step)
        if key not in self._of_any_slots:
            self._of_any_slots[key] = self._step(phase, step, slots)
        return self._of_any_slots[key]

    def _step(self, phase: Phase, step: int, slots: Slots) -> Bound:
        turns = phase.steps.turns(step)
        if phase.steps.computes(step):
            kernel, calls = kernel_calls(self.program, phase, step, slots)
            macs = sum(kernel.macs_of(call) * repeat for call, repeat in calls)
            read = sum(kernel.bytes_read(call, self._bytes) * repeat for call, repeat in calls)
            return read / self.wafer.sram_bytes_per_cycle, macs / self._macs_per_cycle, 0.0, 0.0
        transfer = transfer_of(self.program, phase, step, slots, chosen_wafers=self._chosen_wafers(phase, step))
        if transfer.leaves_wafer:
            return self._off_wafer(transfer, turns)
        return 0.0, 0.0, float(self._links(transfer, turns) * self.wafer.hop_cycles), 0.0

    def _chosen_wafers(self, phase: Phase, step: int) -> frozenset[int] | None:
        """Return the wafers with experts that tokens choose evenly, for a step that depends on them."""
        if not phase.steps.routed[step]:
            return None
        return self.program.chosen_wafers(int(phase.steps.stage[step]), by_column(self.program, phase, step, EVEN))

    def _off_wafer(self, transfer: Transfer, turns: int) -> Bound:
        """Return the bytes over links between wafers, which all work at once, or over the link of the host."""
        wafer = self.wafer
        if not transfer.crossings or not transfer.is_awaited:
            return NO_BOUND
        if any(HOST in pair for pair in transfer.crossings):
            seconds = transfer.crossing_bytes / wafer.host_bytes_per_s
        else:
            waits = transfer.link_latencies * wafer.wafer_link_latency_s
            seconds = waits + most_peers(transfer.crossings) * transfer.crossing_bytes / wafer.wafer_link_bytes_per_s
        return 0.0, 0.0, 0.0, turns * seconds * wafer.clock_hz

    def _links(self, transfer: Transfer, turns: int) -> int:
        """Return the number of links that the words of a step traverse, over all iterations."""
        messages = transfer.messages
        if isinstance(messages, LineMessages):
            return self._pattern_links(messages, turns)
        if isinstance(messages, Translation):
            if transfer.in_memory:
                return 0
            source, target = transfer.site.placed_stage.rect, self.program.stages[messages.target_stage].rect
            right = target.col + messages.target_col - source.col - messages.source_col
            down = target.row + messages.pieces[:, RECEIVER] - source.row - messages.pieces[:, SENDER]
            return int(np.abs(down).max()) + abs(right)
        return turns  # a row up

    def _pattern_links(self, messages: LineMessages, turns: int) -> int:
        pattern, in_place = messages.schedule, messages.in_place
        rounds = pattern.variants[np.arange(turns) % len(pattern.variants)]
        return int(self._reaches(pattern, in_place=in_place)[rounds].max(axis=1).sum())


def _reaches(pattern: LineSchedule, *, in_place: bool) -> I64:
    """Return the reach of every variant that some line executes, int64 ``[variants]``; 0 for the others."""
    used = set(np.unique(pattern.variants).tolist())
    links = [reach(pattern, v, in_place=in_place) if v in used else 0 for v in range(len(pattern.first) - 1)]
    return np.array(links, np.int64)
