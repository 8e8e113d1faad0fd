"""How many tokens each expert got."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadTrace
from wse.report.as_json import Report
from wse_traces.read import Trace

MOST_EXPERTS: Final = 1 << 16
"""Of one layer; the largest models have some hundred."""


def expert_facts(trace: Trace) -> list[Report]:
    """For each layer of experts, ascending, ``layer`` and ``tokens`` by expert, over the run as far as it went.

    Raises:
        BadTrace: a layer, expert or count cannot be.
    """
    table = "expert_load" if trace.rows("expert_load") else "routed"  # the former is written at the end of a run
    rows = trace.table(table)
    for name, most in (("layer", 1 << 31), ("expert", MOST_EXPERTS), ("tokens", 1 << 53)):
        if len(rows[name]) and not 0 <= rows[name].min() <= rows[name].max() < most:
            where = f"{'routed' if table == 'routed' else 'experts'}/{name}"
            message = (
                f"{trace.path}: {where}: values from {rows[name].min()} to {rows[name].max()}; make the trace again"
            )
            raise BadTrace(message)
    experts = int(rows["expert"].max(initial=-1)) + 1
    found = []
    for layer in np.unique(rows["layer"]).tolist():
        mine = rows["layer"] == layer
        tokens = np.bincount(rows["expert"][mine], rows["tokens"][mine], experts)
        found.append({"layer": layer, "tokens": tokens.astype(int).tolist()})
    return found
