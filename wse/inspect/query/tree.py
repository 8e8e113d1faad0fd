"""The ops of each layer, in the order of the graph, with their cycles."""

from __future__ import annotations

import numpy as np

from wse.inspect.query.opened import Facts
from wse.inspect.query.work import Work
from wse_traces.schema import PHASES


def tree_facts(work: Work) -> list[Facts]:
    """The ops in graph order, with the cycles of a mean pass of each phase, under the layers that they belong to."""
    trace = work.trace
    names, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    layers = trace.column("graph/ops/layer").tolist()
    passes = np.array([max(1, work.passes[phase]) for phase in PHASES])
    cycles = work.sums(work.steps["op"], len(names)).cycles / passes[:, np.newaxis]
    tree: list[Facts] = []
    for op, (name, kind, layer) in enumerate(zip(names, kinds, layers, strict=True)):
        if not tree or tree[-1]["layer"] != layer:
            tree.append({"layer": layer, "ops": []})
        tree[-1]["ops"].append({"op": name, "kind": kind, **{p: float(cycles[i, op]) for i, p in enumerate(PHASES)}})
    for node in tree:
        node |= {phase: sum(op[phase] for op in node["ops"]) for phase in PHASES}
    return tree
