"""Work of all PEs in a run of a phase: multiply-adds, bytes of weights and cache read, vector operations.

Only kernels are counted, not the operations inside of collectives, so an energy that follows from it is one from below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.arrays import F64, I64
from wse.backends.fabric.expert_costs import EVEN, by_column, kernel_calls
from wse.backends.fabric.step_classes import by_slots
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.operands import VIEWS
from wse.program.isa.pe_costs import pe_costs
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind, Slots


class Counts(NamedTuple):
    """Counts of operations and words in one run of a phase, summed over all PEs."""

    macs: float = 0.0
    read_bytes: float = 0.0
    vector_operations: float = 0.0


def phase_counts(
    program: Program,
    wafer: WaferSpec,
    software: SoftwareProfile,
    phase: Phase,
    slots_of_runs: Iterable[Slots],
    classes: I64,
) -> list[Counts]:
    """Return the counts of several runs of a phase, each with its cache slots; tokens choose experts evenly.

    ``classes`` int64 ``[steps]`` names for each step one that costs the same, as ``Fabric.shape_classes`` does. What
    depends on no cache slots is counted once for all runs.

    Cycles are linear in what issuing a vector operation costs, so one more cycle for each tells how many there are.
    """
    costs = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
    slower = replace(costs, issue=costs.issue + 1, mapped_issue=costs.mapped_issue + 1)
    element_bytes = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}
    kinds, repeats = np.unique(classes[phase.steps.kind == Kind.COMPUTE], return_counts=True)
    grows, stage = by_slots(phase.steps), phase.steps.stage

    def of_class(step: int, times: int, slots: Slots) -> list[F64]:
        """Return the counts of all steps of a class, float64 ``[3]`` for each kind of its iterations."""
        kernel, calls = kernel_calls(program, phase, step, slots)
        pes = float(calls[0][0][1]) * program.stages[stage[step]].cols
        if phase.steps.routed[step]:
            pairs = by_column(program, phase, step, EVEN)
            pes *= float(pairs.mean() / pairs.max())  # the operands are those of the fullest column
        over_heads = bool(phase.steps.over_heads[step])
        of_calls = []
        for call, repeat in calls:
            operations = kernel.cycles_of(call, slower, over_heads=over_heads) - kernel.cycles_of(
                call, costs, over_heads=over_heads
            )
            counts = [kernel.macs_of(call), kernel.bytes_read(call, element_bytes), operations]
            of_calls.append(np.array(counts) * (pes * repeat * times))
        return of_calls

    known: dict[tuple[int, int], list[F64]] = {}
    of_runs = []
    for slots in slots_of_runs:
        total = np.zeros(3)
        for step, times in zip(kinds.tolist(), repeats.tolist(), strict=True):
            key = (step, slots[stage[step]] if grows[step] else 0)
            if key not in known:
                known[key] = of_class(step, times, slots)
            for counts in known[key]:
                total += counts
        of_runs.append(Counts(*total.tolist()))
    return of_runs
