"""The median decoded token, which the page sets every other token beside: what it took, by kind of op."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.as_json import Report
from wse.tracing.page.pack import Array
from wse_traces.groups import group_sums
from wse_traces.read import Trace
from wse_traces.schema import PHASES

DECODE: Final = PHASES.index("decode")


def median_data(phase: Array, cycles: Array, schedule: Array, by_kind: Array, kv_slots: Array) -> Report | None:
    """Return the decoded token of the median pass, the lower of two; None where no token was decoded.

    Args:
        phase: int ``[token]``: the phase of the pass that made each token, -1: none.
        cycles: int ``[token]``: what that pass took.
        schedule: int ``[token]``: the sequence of steps of it.
        by_kind: int ``[schedule, kind]``, as ``kind_cycles`` gives it.
        kv_slots: int ``[schedule]``: slots of the KV cache in use.
    """
    decoded = np.flatnonzero(phase == DECODE)
    if not len(decoded):
        return None
    token = int(decoded[np.argsort(cycles[decoded], kind="stable")[(len(decoded) - 1) // 2]])
    at = int(schedule[token])
    return {
        "token": token,
        "cycles": int(cycles[token]),
        "kv_slots": int(kv_slots[at]),
        "by_kind": by_kind[at].tolist(),
    }


def kind_cycles(trace: Trace, begins: Array, counts: Array, kind_of: Array) -> Array:
    """Return the cycles of the steps of each sequence by kind of op, int64 ``[schedule, kind]``; the last kind is no
    op.

    Args:
        trace: An open trace.
        begins: int ``[schedule]``: the first row of each sequence in the table of steps.
        counts: int ``[schedule]``: the number of its rows there.
        kind_of: int ``[op]``: the kind of each op; the last item is -1, of no op.
    """
    kinds = int(kind_of.max(initial=-1)) + 2
    owner = np.full(trace.rows("step"), -1, np.int64)
    for schedule, (first, rows) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        owner[first : first + rows] = schedule
    kind = kind_of[trace.column("steps/op")]
    cell = owner * kinds + np.where(kind < 0, kinds - 1, kind)
    used = owner >= 0
    cycles = trace.column("steps/cycles").astype(np.int64)
    return group_sums(cycles[used], cell[used], len(begins) * kinds).reshape(len(begins), kinds)
