"""Bytes between wafers and to the host and back."""

from __future__ import annotations

import numpy as np

from wse.inspect.query.passes import pass_phases
from wse_traces.read import Trace
from wse_traces.schema import HOST, PHASES


def crossing_bytes(trace: Trace) -> dict[tuple[str, bool], float]:
    """Bytes of a mean pass by phase, and whether the host is at an end; bytes of loading belong to no phase."""
    crossings, phases = trace.table("crossing"), pass_phases(trace)
    inside = (crossings["pass"] >= 0) & (crossings["pass"] < len(phases))
    phase = np.append(phases, -1)[np.where(inside, crossings["pass"], len(phases))]
    host = (crossings["src_wafer"] == HOST) | (crossings["dst_wafer"] == HOST)
    amounts = {}
    for code, name in enumerate(PHASES):
        passes = max(1, int((phases == code).sum()))
        for at_host in (False, True):
            amounts[name, at_host] = int(crossings["bytes"][(phase == code) & (host == at_host)].sum()) / passes
    return amounts
