"""The steps of one run of a phase, and what it sends between wafers, as columns of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.fabric.causes import CAUSES
from wse.fabric.phase_cost import PhaseCost
from wse.instructions import KERNELS
from wse.phase import Kind, Phase
from wse.program import Program

TRANSFER_NAMES = {Kind.CACHE_SHIFT: "cache_shift", Kind.HAND_OVER: "hand_over", Kind.CROSS: "cross"}
KIND_CODES = {Kind.COMPUTE: 0, Kind.LINE: 1, Kind.CACHE_SHIFT: 1, Kind.HAND_OVER: 1, Kind.CROSS: 2, Kind.WAFERS: 2}

Columns = dict[str, npt.NDArray[Any]]
Busy = list[tuple[int, int, int, int]]
"""Stage, first row of the mesh, one past the last, and the cycles that PEs there compute."""


def place_columns(program: Program, phase: Phase, index_names: Callable[[Sequence[str]], npt.NDArray[Any]]) -> Columns:
    """Columns of the table of steps that are the same for all runs of a phase.

    ``index_names`` gives the indices of names in the trace.
    """
    stages = np.array([(s.wafer, *s.rect) for s in program.stages], np.int64)[phase.stage]
    wafer, row, col, rows, cols = stages.T
    ranged = np.isin(phase.kind, (Kind.COMPUTE, Kind.LINE))  # of the region's rows, those that take part
    columns = {
        "op": phase.op,
        "stage": phase.stage,
        "layer": np.array(program.op_layers, np.int32)[phase.op],
        "wafer": wafer,
        "name": index_names(_names(program, phase)),
        "row": row + np.where(ranged, phase.fixed[:, 0], 0),
        "col": col,
        "rows": np.where(ranged, phase.fixed[:, 1], rows),
        "cols": cols,
    }
    kinds = np.array([KIND_CODES[kind] for kind in Kind], np.uint8)
    return {name: column.astype(np.int32) for name, column in columns.items()} | {"kind": kinds[phase.kind]}


def cost_columns(cost: PhaseCost) -> Columns:
    """Those that differ from run to run, one row a step as well."""
    by_cause = cost.by_cause.astype(np.int64)
    return {
        "start_cycle": cost.start.astype(np.int64),
        "cycles": by_cause.sum(axis=1),
        "cycles_by": by_cause,
        "words": cost.words,
        "hops": cost.hops,
    }


def crossing_columns(program: Program, phase: Phase, cost: PhaseCost) -> Columns:
    """Columns of the table of crossings but ``pass``, one row for each step and pair of wafers; there may be none."""
    found = np.flatnonzero(np.isin(phase.kind, (Kind.CROSS, Kind.WAFERS))).tolist()
    pairs = [(step, *pair) for step in found for pair in cost.crossed.get(step, program.crossings(phase, step))]
    steps, sources, targets = np.array(pairs, np.int64).reshape(-1, 3).T
    crossing, host = CAUSES.index("crossing"), CAUSES.index("host")
    return {
        "src_wafer": sources.astype(np.int32),
        "dst_wafer": targets.astype(np.int32),
        "bytes": cost.bytes[steps] // np.bincount(steps)[steps] if len(steps) else steps,
        "cycles": (cost.by_cause[steps, crossing] + cost.by_cause[steps, host]).astype(np.int64),
    }


def busy_cycles(program: Program, phase: Phase, cost: PhaseCost) -> Busy:
    """Where PEs compute in one run, each rectangle of PEs once."""
    compute = np.where(phase.kind == Kind.COMPUTE, cost.by_cause[:, CAUSES.index("compute")], 0.0)
    first = np.array([s.rect.row for s in program.stages])[phase.stage] + phase.fixed[:, 0]
    places = np.column_stack([phase.stage, first, first + phase.fixed[:, 1]])[phase.kind == Kind.COMPUTE]
    distinct, which = np.unique(places, axis=0, return_inverse=True)
    sums = np.bincount(which.ravel(), compute[phase.kind == Kind.COMPUTE], len(distinct))
    return [(*place, int(cycles)) for place, cycles in zip(distinct.tolist(), sums, strict=True)]


def _names(program: Program, phase: Phase) -> list[str]:
    names = []
    for kind, code in zip(phase.kind.tolist(), phase.code.tolist(), strict=True):
        if kind == Kind.COMPUTE:
            names.append(KERNELS[code])
        elif kind in (Kind.LINE, Kind.WAFERS):
            names.append(program.patterns[code].name)
        else:
            names.append(TRANSFER_NAMES[Kind(kind)])
    return names
