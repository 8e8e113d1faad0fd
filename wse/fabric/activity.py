"""Work of all PEs in a run of a phase: multiply-adds, bytes of weights and cache read, vector operations.

Only kernels are counted, not the operations inside of collectives, so an energy that follows from it is one from below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.arrays import I64
from wse.fabric.expert_costs import EVEN, by_column, kernel_calls
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.isa.operands import VIEWS
from wse.isa.pe_costs import pe_costs
from wse.number_formats import ELEMENT_BYTES
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind, Slots


class Counts(NamedTuple):
    """Counts of one run of a phase, summed over all PEs."""

    macs: float = 0.0
    read_bytes: float = 0.0
    vector_operations: float = 0.0


def phase_counts(
    program: Program, wafer: WaferSpec, software: SoftwareProfile, phase: Phase, slots: Slots, classes: I64
) -> Counts:
    """The counts of one run of a phase with so many cache slots in use; tokens choose experts evenly.

    ``classes`` int64 ``[steps]`` names for each step one that costs the same, as ``Fabric.shape_classes`` does.

    Cycles are linear in what issuing a vector operation costs, so one more cycle for each tells how many there are.
    """
    costs = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
    slower = replace(costs, issue=costs.issue + 1, mapped=costs.mapped + 1)
    element_bytes = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}
    kinds, repeats = np.unique(classes[phase.steps.kind == Kind.COMPUTE], return_counts=True)
    total = np.zeros(3)
    for step, times in zip(kinds.tolist(), repeats.tolist(), strict=True):
        kernel, calls = kernel_calls(program, phase, step, slots)
        pes = float(calls[0][0][1]) * program.stages[phase.steps.stage[step]].cols
        if phase.steps.routed[step]:
            pairs = by_column(program, phase, step, EVEN)
            pes *= float(pairs.mean() / pairs.max())  # the operands are those of the fullest column
        over_heads = bool(phase.steps.over_heads[step])
        for call, repeat in calls:
            operations = kernel.cycles_of(call, slower, over_heads=over_heads) - kernel.cycles_of(
                call, costs, over_heads=over_heads
            )
            counts = [kernel.macs_of(call), kernel.bytes_read(call, element_bytes), operations]
            total += np.array(counts) * (pes * repeat * times)
    return Counts(*total.tolist())
