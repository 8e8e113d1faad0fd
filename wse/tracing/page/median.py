"""The median decoded token, with which the page compares every other token."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.as_json import Report
from wse.tracing.page.pack import Array
from wse_traces.reader.groups import group_sums
from wse_traces.reader.read import Trace
from wse_traces.schema import PHASES

DECODE: Final = PHASES.index("decode")


def median_data(phase: Array, cycles: Array, schedule: Array, by_kind: Array, kv_slots: Array) -> Report | None:
    """Return the decoded token whose pass takes the median number of cycles.

    If the number of decoded tokens is even, the lower of the two middle ones is used.

    Args:
        phase: int ``[token]``: phase of the pass that read or generated each token, or -1.
        cycles: int ``[token]``: number of cycles of that pass.
        schedule: int ``[token]``: schedule (sequence of steps) of that pass.
        by_kind: int ``[schedule, kind]``: cycles of each op kind, from ``kind_cycles``.
        kv_slots: int ``[schedule]``: number of KV-cache slots in use.

    Returns:
        A dict with ``token`` (its index), ``cycles``, ``kv_slots`` and ``by_kind`` (cycles of each
        op kind), or None if no token was decoded.
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
    """Return the cycles that each op kind takes in each schedule (sequence of steps).

    Args:
        trace: An open trace.
        begins: int ``[schedule]``: first row of each schedule in the step table.
        counts: int ``[schedule]``: number of rows of each schedule.
        kind_of: int ``[op + 1]``: kind of each op, followed by -1 for steps without an op.

    Returns:
        int64 ``[schedule, kind]``. The last kind represents steps without an op.
    """
    kinds = int(kind_of.max(initial=-1)) + 2
    owner = np.full(trace.rows("step"), -1, np.int64)
    for schedule, (first, rows) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        owner[first : first + rows] = schedule
    kind = kind_of[trace.column("steps/op")]
    cell = owner * kinds + np.where(kind < 0, kinds - 1, kind)
    has_owner = owner >= 0
    cycles = trace.column("steps/cycles").astype(np.int64)
    return group_sums(cycles[has_owner], cell[has_owner], len(begins) * kinds).reshape(len(begins), kinds)
