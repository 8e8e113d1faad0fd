"""Token counts of the experts, read from a trace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse.tracing.expert_load import ExpertLoad
from wse_traces.reader.groups import group_sums
from wse_traces.reader.read import Columns, Trace
from wse_traces.schema import PHASES

I64 = npt.NDArray[np.int64]


def load_in(trace: Trace) -> ExpertLoad:
    """Read from a trace how many tokens were routed to each expert.

    The result is empty if the model has no experts.
    """
    load = ExpertLoad()
    rows = trace.table("routed")
    if not len(rows["expert"]):
        return load
    phase = trace.column("schedules/phase")[trace.column("passes/schedule")[rows["pass"]]]
    experts = int(max(rows["expert"].max(), trace.column("experts/expert").max(initial=0))) + 1
    for code, name in enumerate(PHASES):
        load.add(name, tokens_by_layer({key: column[phase == code] for key, column in rows.items()}, experts))
    return load


def tokens_by_layer(rows: Columns, experts: int) -> dict[int, I64]:
    """Return the number of tokens routed to each expert in each layer.

    Args:
        rows: Columns ``layer``, ``expert`` and ``tokens``. Multiple rows for the same expert are
            summed.
        experts: Number of experts in each layer.

    Returns:
        int64 ``[experts]`` for each layer index.
    """
    layers, group = np.unique(rows["layer"], return_inverse=True)
    sums = group_sums(rows["tokens"], group * experts + rows["expert"], len(layers) * experts)
    return dict(zip(layers.tolist(), sums.reshape(len(layers), experts), strict=True))
