"""Read a trace and print the kinds of op that took the most cycles over all passes of a run.

Example:
    python docs/examples/read_trace.py wse-run.h5
"""

from __future__ import annotations

import sys
from collections import Counter

from wse_traces import open_trace

cycles: Counter[str] = Counter()
with open_trace((sys.argv[1:] or ["wse-run.h5"])[0]) as trace:
    kinds = trace.texts("graph/ops/kind")
    first, count = trace["schedules/first_step"][:], trace["schedules/steps"][:]
    for schedule in trace["passes/schedule"][:]:
        steps = slice(first[schedule], first[schedule] + count[schedule])
        for op, taken in zip(trace["steps/op"][steps], trace["steps/cycles"][steps], strict=True):
            cycles[kinds[op] if op >= 0 else "no op"] += int(taken)
for kind, total in cycles.most_common(5):
    sys.stdout.write(f"{kind:12} {total:12,} cycles, {total / cycles.total():6.1%}\n")
