"""View of the ops of each layer in the order of the graph, with their cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.step_sums import PassTotals, StepSums
from wse.tracing.query.view import View
from wse_traces.schema import PHASES


class OpCycles(Result):
    """Cycle count of one op in each phase, averaged over the phase's passes.

    A prefill pass reads one chunk of a prompt. A decode pass generates one token for each user.
    """

    op: Annotated[str, Doc("name of the op")]
    kind: Annotated[str, Doc("kind of op")]
    prefill: Annotated[float, Doc("cycles in a mean chunk of the prompts", "cycles")]
    decode: Annotated[float, Doc("cycles in a mean decoded token", "cycles")]
    verify: Annotated[
        float | None, Doc("cycles in a mean pass over several tokens of one user, where there were any", "cycles")
    ] = None


class LayerOps(Result):
    """Consecutive ops of one layer, with their total cycles in each phase.

    The cycles are means per pass, i.e. per prompt chunk or generated token. Ops outside the layers,
    such as the embedding, form groups with layer -1.
    """

    layer: Annotated[int, Doc("layer of the model, -1: outside of the layers")]
    ops: Annotated[tuple[OpCycles, ...], Doc("the ops in the order of the graph")]
    prefill: Annotated[float, Doc("cycles in a mean chunk of the prompts", "cycles")]
    decode: Annotated[float, Doc("cycles in a mean decoded token", "cycles")]
    verify: Annotated[
        float | None, Doc("cycles in a mean pass over several tokens of one user, where there were any", "cycles")
    ] = None


class TreeView(View):
    """View of the layers and their ops, with the mean cycles per pass in each phase.

    ``tree`` is in op graph order.
    """

    phases: Annotated[Mapping[str, PassTotals], Doc("totals of each phase that ran")]
    tree: Annotated[tuple[LayerOps, ...], Doc("layers with their ops")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each op, for output as CSV."""
        return [{"layer": layer.layer, **op.to_dict()} for layer in self.tree for op in layer.ops]


class KindTotal(NamedTuple):
    """Cycle count of all ops of one kind in one phase, averaged over the phase's passes.

    Attributes:
        kind: Name of the kind, such as "norm".
        ops: Number of ops.
        cycles: Mean cycles per pass of all ops of this kind.
    """

    kind: str
    ops: int
    cycles: float


def read_tree(sums: StepSums) -> list[LayerOps]:
    """Return the ops with their cycles, grouped by layer and in the order of the model's ops.

    Consecutive ops outside the layers also form a group. The cycles of verification passes are
    included only if there were such passes.
    """
    records = sums.trace.records("op")
    passes = np.array([max(1, sums.passes[phase]) for phase in PHASES])
    cycles = (sums.by_group(sums.steps["op"], len(records)).cycles / passes[:, np.newaxis]).T.tolist()
    phases = [phase for phase in PHASES if phase != "verify" or sums.passes[phase]]
    ops = [
        OpCycles(op=record["name"], kind=record["kind"], **dict(zip(phases, op_cycles, strict=False)))
        for record, op_cycles in zip(records, cycles, strict=True)
    ]
    tree = []
    for layer, rows in groupby(range(len(ops)), key=lambda row: records[row]["layer"]):
        layer_ops = tuple(ops[row] for row in rows)
        totals = {phase: sum(getattr(op, phase) for op in layer_ops) for phase in phases}
        tree.append(LayerOps(layer=layer, ops=layer_ops, **totals))
    return tree


def kind_totals(tree: Sequence[LayerOps], phase: str) -> list[KindTotal]:
    """Return the mean cycles per pass of each op kind, in descending order.

    Args:
        tree: Layers with their ops.
        phase: Phase of the pass: "prefill", "decode" or "verify".
    """
    cycles: dict[str, list[float]] = defaultdict(list)
    for op in (op for layer in tree for op in layer.ops):
        cycles[op.kind].append(getattr(op, phase))
    kinds = [KindTotal(kind, len(costs), sum(costs)) for kind, costs in cycles.items()]
    return sorted(kinds, key=lambda kind: -kind.cycles)
