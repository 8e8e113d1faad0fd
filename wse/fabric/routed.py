"""Steps whose work and words depend on which experts tokens chose: what they add to the cost of a phase.

A column works on the pairs of tokens and experts that it holds and sends as many words; the phase waits for the column
that has most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from wse.fabric.causes import Cycles
from wse.fabric.link_map import I64
from wse.fabric.step_cost import StepCosts
from wse.fabric.traffic import Traffic
from wse.phase import Kind, Phase
from wse.program import Program

if TYPE_CHECKING:
    from wse.fabric.phase_cost import PhaseCost

Pairs = Mapping[int, I64]
"""By layer, int64 ``[experts]``: how many tokens of a run of a phase chose each expert."""

EVEN: Final[Pairs] = {}
"""Layers that are missing are taken to choose as evenly as they can."""


class _Cost(NamedTuple):
    """What one step costs."""

    cycles: Cycles
    contention_cycles: float = 0.0
    streams: int = 1


class RoutedCosts:
    """Adds what routed steps cost and move to the cost of a phase without them. Keeps what it computed."""

    def __init__(self, program: Program, steps: StepCosts, traffic: Traffic) -> None:
        self.program, self._steps, self._traffic = program, steps, traffic
        self._known: dict[tuple[int, int, int], _Cost] = {}

    def added(self, cost: PhaseCost, phase: Phase, like: I64, slots: int, pairs: Pairs) -> PhaseCost:
        """``cost`` with its routed steps, whose layers' tokens chose experts as ``pairs`` says."""
        steps = np.flatnonzero(phase.routed)
        if not len(steps):
            return cost
        start, by_cause, words, hops = cost.start.copy(), cost.by_cause.copy(), cost.words.copy(), cost.hops.copy()
        contention, streams, rectangles = cost.contention.copy(), cost.streams.copy(), [cost.shifts]
        payload, crossed = cost.bytes.copy(), dict[int, tuple[tuple[int, int], ...]]()
        for step in steps.tolist():
            columns = by_column(self.program, phase, step, pairs)
            crossings: tuple[tuple[int, int], ...] = ()
            if phase.kind[step] == Kind.WAFERS:
                crossings = crossed[step] = self.program.chosen_crossings(phase, step, columns)
                found = self._between(phase, step, int(like[step]), slots, crossings)
            else:
                most = max(1, int(columns.max()))  # none only where logits were not numbers and nothing was chosen
                found = self._cost(phase, step, int(like[step]), slots, most)
            by_cause[step] += found.cycles[1:]
            start[step + 1 :] += found.cycles.total
            contention[step], streams[step] = found.contention_cycles, found.streams
            if phase.kind[step] == Kind.LINE:
                moved = self._traffic.moved_by_pairs(phase, step, slots, columns)
                words[step], hops[step] = moved.words, moved.hops
                rectangles.append(moved.rectangles)
            elif phase.kind[step] == Kind.WAFERS:
                moved = self._traffic.between_wafers(phase, step, slots, crossings)
                words[step], hops[step], payload[step] = moved.words, moved.hops, moved.bytes
                rectangles.append(moved.rectangles)
        return replace(
            cost,
            start=start,
            by_cause=by_cause,
            words=words,
            hops=hops,
            bytes=payload,
            crossed=crossed,
            contention=contention,
            streams=streams,
            shifts=np.concatenate(rectangles),
        )

    def _between(self, phase: Phase, step: int, like: int, slots: int, pairs: tuple[tuple[int, int], ...]) -> _Cost:
        """Of a step between those pairs of wafers."""
        key = (id(phase.fixed), like, -1 - len(pairs))
        if key not in self._known:
            cycles = self._steps.between_wafers(phase, step, phase.operands(step, slots).tolist(), pairs)
            self._known[key] = _Cost(cycles=cycles.whole())
        return self._known[key]

    def _cost(self, phase: Phase, step: int, like: int, slots: int, pairs: int) -> _Cost:
        """Of one step where the fullest column has so many pairs; no operand of it depends on cache slots."""
        key = (id(phase.fixed), like, pairs)
        if key not in self._known:
            one = phase.of_pairs(step, pairs)
            cycles = self._steps.cycles(one, 0, slots, 0).whole()
            known = _Cost(cycles=cycles)
            if self._steps.moves(one, 0):
                time = self._steps.at_once(one, [0], slots, 0)
                known = _Cost(cycles=cycles, contention_cycles=time.contention_cycles, streams=time.streams)
            self._known[key] = known
        return self._known[key]


def by_column(program: Program, phase: Phase, step: int, pairs: Pairs) -> I64:
    """int64 ``[cols]``: pairs on each column at a step that works on some."""
    mixture = program.mixtures[int(phase.stage[step])]
    assert mixture is not None
    layer = program.op_layers[int(phase.op[step])]
    return mixture.pairs_by_column(pairs[layer] if layer in pairs else mixture.even_pairs(phase.tokens))


def evenly(program: Program, phase: Phase, step: int) -> tuple[Phase, int]:
    """A phase and its step as they are for the fullest column, where tokens choose as evenly as they can."""
    if not phase.routed[step]:
        return phase, step
    return phase.of_pairs(step, int(by_column(program, phase, step, EVEN).max())), 0
