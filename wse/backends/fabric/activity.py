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
from wse.backends.fabric.expert_columns import ASSUMED, kernel_calls, pairs_by_column
from wse.backends.fabric.step_classes import by_slots
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.operands import VIEWS
from wse.program.isa.pe_costs import pe_costs
from wse.program.program import Program
from wse.program.steps import Phase, Slots, StepKind


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

    Tokens are assumed to select experts as in ``Program.routing``. Steps with equal cost form a
    class. To save time, the operations of one step are counted and multiplied by the number of
    steps in its class. A count that does not depend on the KV cache is reused for all runs.

    Args:
        program: The compiled Program.
        wafer: Wafer type.
        software: Software profile.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        slots_of_runs: For each run, the number of cached tokens on the fullest row of PEs of each
            stage (group of layers).
        classes: int64 ``[steps]``: for each step, the index of a step of the same class, from
            ``Fabric.shape_classes``.

    Returns:
        One `Counts` for each element of ``slots_of_runs``, in the same order.
    """
    step_counts = _StepCounts(program, wafer, software, phase)
    kinds, repeats = np.unique(classes[phase.steps.kind == StepKind.COMPUTE], return_counts=True)
    grows, stage = by_slots(phase.steps), phase.steps.stage
    cached_counts: dict[tuple[int, int], list[F64]] = {}
    counts_of_runs = []
    for slots in slots_of_runs:
        total = np.zeros(3)
        for step, times in zip(kinds.tolist(), repeats.tolist(), strict=True):
            key = (step, slots[stage[step]] if grows[step] else 0)
            if key not in cached_counts:
                cached_counts[key] = step_counts.class_counts(step, times, slots)
            for counts in cached_counts[key]:
                total += counts
        counts_of_runs.append(Counts(*total.tolist()))
    return counts_of_runs


class _StepCounts:
    """Counter of the operations of single steps of a phase.

    The number of vector operations is derived from the cycle count of a kernel. Each vector
    operation costs a constant number of cycles to issue, so raising this cost by one cycle adds one
    cycle per operation.
    """

    def __init__(self, program: Program, wafer: WaferSpec, software: SoftwareProfile, phase: Phase) -> None:
        self._program, self._phase = program, phase
        self._costs = pe_costs(wafer, software, program.element_type("act"), program.element_type("acc"))
        self._slower = replace(self._costs, issue=self._costs.issue + 1, mapped_issue=self._costs.mapped_issue + 1)
        self._element_bytes = {view: ELEMENT_BYTES[program.element_type(view)] for view in VIEWS}

    def class_counts(self, step: int, times: int, slots: Slots) -> list[F64]:
        """Count the operations of all steps of a class, which have the same cost.

        Args:
            step: A step of the class.
            times: Number of steps of the class.
            slots: For each stage (a group of layers), the number of cached tokens on its fullest
                row of PEs.

        Returns:
            Arrays float64 ``[3]`` of multiply-adds, bytes read and vector operations. The first
            array is for the first iteration of the loop that contains the steps; if there are more
            iterations, the second array is for all of them. The sum is the total of the class.
        """
        kernel, calls = kernel_calls(self._program, self._phase, step, slots)
        pes = float(calls[0][0][1]) * self._program.stages[self._phase.steps.stage[step]].cols
        if self._phase.steps.depends_on_experts[step]:
            pairs = pairs_by_column(self._program, self._phase, step, ASSUMED)
            pes *= float(pairs.mean() / pairs.max())  # the operands describe the fullest column
        over_heads = bool(self._phase.steps.over_heads[step])
        counts_of_calls = []
        for call, repeat in calls:
            operations = kernel.cycles_of(call, self._slower, over_heads=over_heads) - kernel.cycles_of(
                call, self._costs, over_heads=over_heads
            )
            counts = [kernel.macs_of(call), kernel.bytes_read(call, self._element_bytes), operations]
            counts_of_calls.append(np.array(counts) * (pes * repeat * times))
        return counts_of_calls
