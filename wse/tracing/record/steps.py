"""Steps of a phase as columns of a trace: costs, transfers between wafers, and busy rectangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.phase_cost import PhaseCost
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse.program.steps import Phase, StepKind, Steps
from wse.program.transfers.transfer_types import TRANSFERS, by_counters, crossings_of, transfer_steps

COMPUTE, TRANSFER, CROSS = range(3)
"""Kinds of steps in a trace. A transfer is of kind ``CROSS`` if its words leave the wafer."""

Columns = dict[str, npt.NDArray[Any]]
BusyRectangles = list[tuple[int, int, int, int]]
"""For each rectangle of PEs: stage, first row, row after the last, and compute cycles per PE."""


class PhaseSteps:
    """Converter of a phase's steps to rows of the trace's tables.

    Columns that are the same in all passes of the phase are computed only once.

    Attributes:
        shifting: int64 ``[shift]``: indices of the steps that are KV-cache shifts.
    """

    def __init__(
        self, program: Program, phase: Phase, index_names: Callable[[Sequence[str]], npt.NDArray[Any]]
    ) -> None:
        """Compute the columns that are the same in all passes of the phase.

        Args:
            program: The compiled Program.
            phase: The phase.
            index_names: Function that returns the row numbers of names in the trace, adding new
                names.
        """
        steps = phase.steps
        self.shifting = by_counters(steps)
        self._places = _place_columns(program, steps) | {"name": index_names(step_names(program, steps))}
        self._crossings = crossings_of(program, phase)
        self._computing = np.flatnonzero(steps.kind == StepKind.COMPUTE)
        first = np.array([s.rect.row for s in program.stages])[steps.stage] + steps.fixed[:, 0]
        places = np.column_stack([steps.stage, first, first + steps.fixed[:, 1]])[self._computing]
        self._busy, rectangle = np.unique(places, axis=0, return_inverse=True)
        self._rectangle_of_step = rectangle.ravel()

    def columns(self, cost: PhaseCost, varying_steps: I64) -> Columns:
        """Return the rows of the trace's step table for one schedule (sequence of steps).

        Args:
            cost: Cost of a pass.
            varying_steps: Indices of the steps whose traffic differs from pass to pass. Their words
                and hops are set to 0 in these rows and recorded for each pass elsewhere.
        """
        by_cause = cost.by_cause.astype(np.int64)
        words, hops = cost.traffic.words.copy(), cost.traffic.hops.copy()
        words[varying_steps] = hops[varying_steps] = 0
        return {
            **self._places,
            "start_cycle": cost.start.astype(np.int64),
            "cycles": by_cause.sum(axis=1),
            "cycles_by": by_cause,
            "words": words,
            "hops": hops,
        }

    def crossings(self, cost: PhaseCost) -> Columns:
        """Return the bytes and cycles of the transfers between wafers in one pass.

        The result has the columns of the trace's table of crossings, except ``pass``. There is a
        row for each step and pair of wafers.
        """
        # The pairs of wafers of some steps depend on the pass, for example on the chosen experts.
        pairs = [(step, *pair) for step, default in self._crossings for pair in cost.used_crossings.get(step, default)]
        steps, sources, targets = np.array(pairs, np.int64).reshape(-1, 3).T
        crossing, host = CAUSES.index("crossing"), CAUSES.index("host")
        return {
            "src_wafer": sources.astype(np.int32),
            "dst_wafer": targets.astype(np.int32),
            "bytes": cost.traffic.bytes[steps] // np.bincount(steps)[steps] if len(steps) else steps,
            "cycles": (cost.by_cause[steps, crossing] + cost.by_cause[steps, host]).astype(np.int64),
        }

    def busy(self, cost: PhaseCost) -> BusyRectangles:
        """Return the rectangles of PEs that compute in one pass, each with its compute cycles."""
        compute = cost.by_cause[self._computing, CAUSES.index("compute")]
        sums = np.bincount(self._rectangle_of_step, compute, len(self._busy))
        return [(*place, int(cycles)) for place, cycles in zip(self._busy.tolist(), sums, strict=True)]


def _place_columns(program: Program, steps: Steps) -> Columns:
    """Return the columns of the step table that are the same in all passes.

    These columns are the op, the stage, the layer, the wafer, the rectangle of PEs, and the kind of
    step.
    """
    stages = np.array([(s.wafer, *s.rect) for s in program.stages], np.int64)[steps.stage]
    wafer, row, col, rows, cols = stages.T
    crosses = transfer_steps(steps, lambda kind: kind.leaves_wafer)
    columns = {
        "op": steps.op,
        "stage": steps.stage,
        "layer": np.array(program.op_layers, np.int32)[steps.op],
        "wafer": wafer,
        "row": row + np.where(crosses, 0, steps.fixed[:, 0]),
        "col": col,
        "rows": np.where(crosses, rows, steps.fixed[:, 1]),
        "cols": cols,
    }
    kinds = np.where(steps.kind == StepKind.COMPUTE, COMPUTE, np.where(crosses, CROSS, TRANSFER)).astype(np.uint8)
    return {name: column.astype(np.int32) for name, column in columns.items()} | {"kind": kinds}


def step_names(program: Program, steps: Steps) -> list[str]:
    """Return the name of each step: its kernel, communication pattern, or type of transfer."""
    names = []
    for kind, code, pattern in zip(steps.kind.tolist(), steps.code.tolist(), steps.pattern.tolist(), strict=True):
        if kind == StepKind.COMPUTE:
            names.append(KERNELS[code].name)
        else:
            names.append(TRANSFERS[code].name if pattern < 0 else program.patterns[pattern].name)
    return names
