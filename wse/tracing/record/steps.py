"""The steps of a phase, what they send between wafers and where they compute, as columns of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.phase_cost import PhaseCost
from wse.program.isa.instructions import KERNELS
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Kind, Steps
from wse.program.transfers.kinds import TRANSFERS, by_counters, crossings_of, transfer_steps

COMPUTE, TRANSFER, CROSS = range(3)
"""Kinds of steps in a trace: the transfers whose words leave a wafer cross."""

Columns = dict[str, npt.NDArray[Any]]
BusyRectangles = list[tuple[int, int, int, int]]
"""Stage, first row of the mesh, one past the last, and the cycles that PEs there compute."""


class PhaseSteps:
    """The steps of a phase, with everything that its runs have in common computed once.

    Attributes:
        shifting: int64 ``[shifts]``: the steps that are cache shifts.
    """

    def __init__(
        self, program: Program, phase: Phase, index_names: Callable[[Sequence[str]], npt.NDArray[Any]]
    ) -> None:
        """Create the steps.

        ``index_names`` returns the indices of names in the trace.
        """
        steps = phase.steps
        self.shifting = by_counters(steps)
        self._places = _place_columns(program, steps) | {"name": index_names(step_names(program, steps))}
        self._crossings = crossings_of(program, phase)
        self._computing = np.flatnonzero(steps.kind == Kind.COMPUTE)
        first = np.array([s.rect.row for s in program.stages])[steps.stage] + steps.fixed[:, 0]
        places = np.column_stack([steps.stage, first, first + steps.fixed[:, 1]])[self._computing]
        self._busy, which = np.unique(places, axis=0, return_inverse=True)
        self._which = which.ravel()

    def columns(self, cost: PhaseCost, apart: I64) -> Columns:
        """Return the table of steps of one sequence; steps in ``apart`` have no traffic."""
        by_cause = cost.by_cause.astype(np.int64)
        words, hops = cost.traffic.words.copy(), cost.traffic.hops.copy()
        words[apart] = hops[apart] = 0
        return {
            **self._places,
            "start_cycle": cost.start.astype(np.int64),
            "cycles": by_cause.sum(axis=1),
            "cycles_by": by_cause,
            "words": words,
            "hops": hops,
        }

    def crossings(self, cost: PhaseCost) -> Columns:
        """Return the table of crossings without ``pass``, one row per step and pair of wafers."""
        pairs = [(step, *pair) for step, known in self._crossings for pair in cost.crossed.get(step, known)]
        steps, sources, targets = np.array(pairs, np.int64).reshape(-1, 3).T
        crossing, host = CAUSES.index("crossing"), CAUSES.index("host")
        return {
            "src_wafer": sources.astype(np.int32),
            "dst_wafer": targets.astype(np.int32),
            "bytes": cost.traffic.bytes[steps] // np.bincount(steps)[steps] if len(steps) else steps,
            "cycles": (cost.by_cause[steps, crossing] + cost.by_cause[steps, host]).astype(np.int64),
        }

    def busy(self, cost: PhaseCost) -> BusyRectangles:
        """Return the distinct rectangles of PEs that compute in one run, with their cycles."""
        compute = cost.by_cause[self._computing, CAUSES.index("compute")]
        sums = np.bincount(self._which, compute, len(self._busy))
        return [(*place, int(cycles)) for place, cycles in zip(self._busy.tolist(), sums, strict=True)]


def _place_columns(program: Program, steps: Steps) -> Columns:
    """Return the columns with the places of steps and what they belong to."""
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
    kinds = np.where(steps.kind == Kind.COMPUTE, COMPUTE, np.where(crosses, CROSS, TRANSFER)).astype(np.uint8)
    return {name: column.astype(np.int32) for name, column in columns.items()} | {"kind": kinds}


def step_names(program: Program, steps: Steps) -> list[str]:
    """Return the name of each step: its kernel, its pattern, or its kind of transfer."""
    names = []
    for kind, code, pattern in zip(steps.kind.tolist(), steps.code.tolist(), steps.pattern.tolist(), strict=True):
        if kind == Kind.COMPUTE:
            names.append(KERNELS[code].name)
        else:
            names.append(TRANSFERS[code].name if pattern < 0 else program.patterns[pattern].name)
    return names
