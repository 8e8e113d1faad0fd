"""Bytes between wafers and to the host and back."""

from __future__ import annotations

import numpy as np

from wse_traces.read import Trace
from wse_traces.schema import HOST, PHASES


def crossing_bytes(trace: Trace) -> dict[tuple[str, bool], float]:
    """Bytes of a mean pass by phase, and whether the host is at an end; those of loading belong to none."""
    crossings = trace.table("crossing")
    phase, schedule = trace.column("schedules/phase"), trace.column("passes/schedule")
    known = (schedule >= 0) & (schedule < len(phase))
    of_pass = np.where(known, phase[np.where(known, schedule, 0)] if len(phase) else 0, -1)
    inside = (crossings["pass"] >= 0) & (crossings["pass"] < len(of_pass))
    of_crossing = np.where(inside, of_pass[np.where(inside, crossings["pass"], 0)] if len(of_pass) else -1, -1)
    host = (crossings["src_wafer"] == HOST) | (crossings["dst_wafer"] == HOST)
    found = {}
    for code, name in enumerate(PHASES):
        passes = max(1, int((of_pass == code).sum()))
        for at_host in (False, True):
            mine = (of_crossing == code) & (host == at_host)
            found[name, at_host] = int(crossings["bytes"][mine].sum()) / passes
    return found
