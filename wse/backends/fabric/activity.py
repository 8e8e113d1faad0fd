"""Work of all PEs in a run of a phase: multiply-adds, bytes read, and vector operations.

The energy estimates are computed from these counts. Only kernels are counted, not the operations
inside collectives, so an energy is a lower bound.
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
from wse.program.steps import Slots, StepKind


class Counts(NamedTuple):
    """Operation and byte counts for one run of a phase, summed over all PEs.

    The fields are multiply-adds, bytes read from SRAM, and vector operations issued.
    """

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
    """Return the operation counts of one phase, summed over all PEs, for each of several runs.

    Tokens are assumed to choose experts evenly.

    1. The number of vector operations is derived from the cycles of a kernel. Each vector operation
       costs a constant number of cycles to issue, so raising this cost by one cycle adds one cycle
       per operation.
    2. Steps of a class all cost the same, so only one of them is counted. Its counts are multiplied
       by the number of PEs, steps and iterations.
    3. Classes that do not depend on cache slots are counted once for all runs.

    Args:
        program: The Program.
        wafer: Wafer type.
        software: Software profile.
        phase: The phase.
        slots_of_runs: For each run, the cache slots in use in each stage.
        classes: int64 ``[steps]``: for each step, the index of a step of the same class, from
            ``Fabric.shape_classes``.

    Returns:
        One `Counts` for each element of ``slots_of_runs``, in the same order.
    """
    costs = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
    slower = replace(costs, issue=costs.issue + 1, mapped_issue=costs.mapped_issue + 1)  # 1
    element_bytes = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}
    kinds, repeats = np.unique(classes[phase.steps.kind == StepKind.COMPUTE], return_counts=True)
    grows, stage = by_slots(phase.steps), phase.steps.stage

    def class_counts(step: int, times: int, slots: Slots) -> list[F64]:
        """Return the counts of all steps of a class of steps that cost the same.

        Args:
            step: A step of the class.
            times: Number of steps of the class.
            slots: Cache slots in use in each stage.

        Returns:
            float64 ``[3]`` arrays to be added up (multiply-adds, bytes read, vector operations),
            one for each group of iterations of equal cost.
        """
        kernel, calls = kernel_calls(program, phase, step, slots)
        pes = float(calls[0][0][1]) * program.stages[stage[step]].cols
        if phase.steps.depends_on_experts[step]:
            pairs = by_column(program, phase, step, EVEN)
            pes *= float(pairs.mean() / pairs.max())  # the operands describe the fullest column
        over_heads = bool(phase.steps.over_heads[step])
        counts_of_calls = []
        for call, repeat in calls:
            operations = kernel.cycles_of(call, slower, over_heads=over_heads) - kernel.cycles_of(
                call, costs, over_heads=over_heads
            )
            counts = [kernel.macs_of(call), kernel.bytes_read(call, element_bytes), operations]
            counts_of_calls.append(np.array(counts) * (pes * repeat * times))  # 2
        return counts_of_calls

    cached_counts: dict[tuple[int, int], list[F64]] = {}  # 3
    counts_of_runs = []
    for slots in slots_of_runs:
        total = np.zeros(3)
        for step, times in zip(kinds.tolist(), repeats.tolist(), strict=True):
            key = (step, slots[stage[step]] if grows[step] else 0)
            if key not in cached_counts:
                cached_counts[key] = class_counts(step, times, slots)
            for counts in cached_counts[key]:
                total += counts
        counts_of_runs.append(Counts(*total.tolist()))
    return counts_of_runs
