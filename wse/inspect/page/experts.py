"""How many tokens each expert got."""

from __future__ import annotations

from typing import Final

from wse.errors import BadTrace
from wse.inspect.expert_load import tokens_by_layer
from wse.report.as_json import Report
from wse_traces.read import Trace

MOST_EXPERTS: Final = 1 << 16
"""Experts of one layer at most; the largest models have some hundred."""


def expert_data(trace: Trace) -> list[Report]:
    """For each layer of experts, ascending, ``layer`` and ``tokens`` by expert, over the run as far as it went.

    Raises:
        BadTrace: a layer, expert or count cannot be.
    """
    table = "expert_load" if trace.rows("expert_load") else "routed"  # the former is written at the end of a run
    rows = trace.table(table)
    for name, most in (("layer", 1 << 31), ("expert", MOST_EXPERTS), ("tokens", 1 << 53)):
        if len(rows[name]) and not 0 <= rows[name].min() <= rows[name].max() < most:
            path = f"{'routed' if table == 'routed' else 'experts'}/{name}"
            values = f"values from {rows[name].min()} to {rows[name].max()}"
            message = f"{trace.path}: {path}: {values}; make the trace again"
            raise BadTrace(message)
    loads = tokens_by_layer(rows, int(rows["expert"].max(initial=-1)) + 1)
    return [{"layer": layer, "tokens": tokens.tolist()} for layer, tokens in loads.items()]
