"""The ops of each layer, in the order of the graph, with their cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.step_sums import PassTotals, StepSums
from wse.tracing.query.view import View
from wse_traces.schema import PHASES


@dataclass(frozen=True, kw_only=True)
class OpCycles(Result):
    """The cycles of an op in an average pass of each phase."""

    op: Annotated[str, Doc("name of the op")]
    kind: Annotated[str, Doc("what it does")]
    prefill: Annotated[float, Doc("cycles in a mean chunk of the prompts", "cycles")]
    decode: Annotated[float, Doc("cycles in a mean decoded token", "cycles")]
    verify: Annotated[
        float | None, Doc("cycles in a mean pass over several tokens of one user, where there were any", "cycles")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LayerOps(Result):
    """Consecutive ops of one layer, and their total cycles."""

    layer: Annotated[int, Doc("layer of the model, -1: outside of the layers")]
    ops: Annotated[tuple[OpCycles, ...], Doc("the ops in the order of the graph")]
    prefill: Annotated[float, Doc("cycles in a mean chunk of the prompts", "cycles")]
    decode: Annotated[float, Doc("cycles in a mean decoded token", "cycles")]
    verify: Annotated[
        float | None, Doc("cycles in a mean pass over several tokens of one user, where there were any", "cycles")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TreeView(View):
    """Ops by layer."""

    phases: Annotated[Mapping[str, PassTotals], Doc("totals of each phase that ran")]
    tree: Annotated[tuple[LayerOps, ...], Doc("layers with their ops")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each op."""
        return [{"layer": layer.layer, **op.to_dict()} for layer in self.tree for op in layer.ops]


class KindTotal(NamedTuple):
    """A kind of op, the number of its ops, and their cycles."""

    kind: str
    ops: int
    cycles: float


def read_tree(sums: StepSums) -> list[LayerOps]:
    """Return the ops in graph order, grouped by layer."""
    records = sums.trace.records("op")
    passes = np.array([max(1, sums.passes[phase]) for phase in PHASES])
    cycles = (sums.by_op().cycles / passes[:, np.newaxis]).T.tolist()
    shown = [phase for phase in PHASES if phase != "verify" or sums.passes[phase]]
    ops = [
        OpCycles(op=record["name"], kind=record["kind"], **dict(zip(shown, spent, strict=False)))
        for record, spent in zip(records, cycles, strict=True)
    ]
    tree = []
    for layer, rows in groupby(range(len(ops)), key=lambda row: records[row]["layer"]):
        inside = tuple(ops[row] for row in rows)
        spent = {phase: sum(getattr(op, phase) for op in inside) for phase in shown}
        tree.append(LayerOps(layer=layer, ops=inside, **spent))
    return tree


def kind_totals(tree: Sequence[LayerOps], phase: str) -> list[KindTotal]:
    """Return the kinds of op with the cycles of an average pass of a phase, the most expensive first."""
    cycles: dict[str, list[float]] = defaultdict(list)
    for op in (op for layer in tree for op in layer.ops):
        cycles[op.kind].append(getattr(op, phase))
    kinds = [KindTotal(kind, len(costs), sum(costs)) for kind, costs in cycles.items()]
    return sorted(kinds, key=lambda kind: -kind.cycles)
