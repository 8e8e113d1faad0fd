"""Which kind of op takes the cycles: a trace of a run read from Python.

Example:
    python docs/examples/read_trace.py wse-run.h5
"""

from __future__ import annotations

import sys

import numpy as np

from wse_traces import open_trace

with open_trace(sys.argv[1]) as trace:
    kinds, ops = trace.texts("graph/ops/kind"), trace["steps/op"][:]
    cycles = np.bincount(ops[ops >= 0], trace["steps/cycles"][:][ops >= 0], len(kinds))
    by_kind = {kind: sum(c for k, c in zip(kinds, cycles, strict=True) if k == kind) for kind in set(kinds)}
    for kind, taken in sorted(by_kind.items(), key=lambda item: -item[1])[:5]:
        sys.stdout.write(f"{kind:12} {taken:12,.0f} cycles of each step once\n")
