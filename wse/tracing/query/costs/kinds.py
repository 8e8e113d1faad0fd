"""Kinds of op with their cycles, the equal ops of each as one, and the steps of those: kind, layers, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import LayerOps, Stretches, layers_by_group
from wse.tracing.query.costs.step_sums import StepSums, Sums
from wse.tracing.query.view import name_at
from wse_traces.groups import distinct_rows
from wse_traces.read import Array
from wse_traces.schema import CAUSES, KINDS, PHASES


@dataclass(frozen=True, kw_only=True)
class PartCycles(Result):
    """A part of the cycles of a phase, summed over the run."""

    cycles: Annotated[int, Doc("sum over the run", "cycles")]
    cycles_by: Annotated[Mapping[str, int], Doc("the cycles by cause", "cycles")]
    words: Annotated[int, Doc("words sent", "words")]
    hops: Annotated[int, Doc("links that the wavelets of these cross", "wavelet-hops")]

    @property
    def mostly(self) -> str:
        """The cause with the most cycles; empty without any."""
        return max(self.cycles_by, key=lambda cause: self.cycles_by[cause]) if self.cycles else ""


@dataclass(frozen=True, kw_only=True)
class KernelCycles(PartCycles):
    """The steps of equal ops with the same kernel or pattern."""

    name: Annotated[str, Doc("kernel or pattern")]
    kind: Annotated[str, Doc("`compute`, `transfer` or `cross`")]


@dataclass(frozen=True, kw_only=True)
class EqualOps(PartCycles):
    """Ops with the same name in their layers and equal cycles in each cause."""

    op: Annotated[str, Doc("name of the op within its layer, empty for steps of none")]
    layers: Annotated[Stretches, Doc("first and last of each stretch of layers; empty outside of the layers")]
    count: Annotated[int, Doc("how many ops these are")]
    steps: Annotated[tuple[KernelCycles, ...], Doc("their steps by kernel or pattern, the costliest first")]


@dataclass(frozen=True, kw_only=True)
class OpKind(PartCycles):
    """All ops of a kind."""

    kind: Annotated[str, Doc("what the ops do, empty for steps of none")]
    layers: Annotated[Stretches, Doc("first and last of each stretch of layers; empty outside of the layers")]
    count: Annotated[int, Doc("how many ops these are")]
    ops: Annotated[tuple[EqualOps, ...], Doc("the ops, equal ones together, the costliest first")]


def read_kinds(sums: StepSums) -> dict[str, tuple[OpKind, ...]]:
    """Return the kinds of op with any cost or traffic by phase, the most expensive first.

    Ops are equal as `wse.tracing.query.costs.folds` says.
    """
    ops = LayerOps(sums.trace)
    op = ops.rows(sums.steps["op"])
    totals = sums.by_group(op, len(ops.number))
    return {phase: _kinds_of(sums, ops, op, totals, code) for code, phase in enumerate(PHASES) if sums.passes[phase]}


def _kinds_of(sums: StepSums, ops: LayerOps, op: Array, totals: Sums, phase: int) -> tuple[OpKind, ...]:
    """Return the kinds of op of a phase; ``op`` is the row of ``ops`` of each step."""
    active = np.flatnonzero((totals.cycles[phase] != 0) | (totals.words[phase] != 0))
    keys, group = distinct_rows([ops.number[active], *totals.cycles_by[phase, active].T])
    layers = layers_by_group(ops.layer[active], group, len(keys))
    sizes = np.bincount(group, minlength=len(keys)).tolist()
    fold = np.full(len(ops.number), -1)
    fold[active] = group
    parts = _parts(sums.by_group(fold[op], len(keys)), phase)
    steps = _kernels(sums, np.where(sums.steps["phase"] == phase, fold[op], -1), len(keys), phase)
    equal: dict[str, list[tuple[EqualOps, Array]]] = {}
    for at, number in enumerate(keys[:, 0].tolist()):
        members = active[group == at]
        folded = EqualOps(op=ops.names[number], layers=layers[at], count=sizes[at], steps=steps[at], **parts[at])
        equal.setdefault(ops.kinds[number], []).append((folded, members))
    kinds = [_kind(kind, folds, ops) for kind, folds in equal.items()]
    return tuple(sorted(kinds, key=lambda kind: (-kind.cycles, kind.kind)))


def _kind(kind: str, folds: list[tuple[EqualOps, Array]], ops: LayerOps) -> OpKind:
    """Return a kind of op from its groups of equal ops."""
    ordered = sorted((fold for fold, _ in folds), key=lambda fold: (-fold.cycles, fold.layers, fold.op))
    members = np.concatenate([rows for _, rows in folds])
    return OpKind(
        kind=kind,
        layers=layers_by_group(ops.layer[members], np.zeros(len(members), np.int64), 1)[0],
        count=sum(fold.count for fold in ordered),
        ops=tuple(ordered),
        cycles=sum(fold.cycles for fold in ordered),
        cycles_by={cause: sum(fold.cycles_by[cause] for fold in ordered) for cause in CAUSES},
        words=sum(fold.words for fold in ordered),
        hops=sum(fold.hops for fold in ordered),
    )


def _kernels(sums: StepSums, fold: Array, folds: int, phase: int) -> list[tuple[KernelCycles, ...]]:
    """Return the steps of each group by kernel or pattern; ``fold`` is the group of each step, -1 for none."""
    chosen = np.where(fold >= 0, fold, folds)
    keys, group = distinct_rows([chosen, sums.steps["name"], sums.steps["kind"]])
    parts, names = _parts(sums.by_group(group, len(keys)), phase), sums.trace.texts("strings/names")
    kernels: list[list[KernelCycles]] = [[] for _ in range(folds + 1)]
    for (at, name, kind), part in zip(keys.tolist(), parts, strict=True):
        kernels[at].append(KernelCycles(name=name_at(names, name), kind=name_at(KINDS, kind), **part))
    return [tuple(sorted(steps, key=lambda step: (-step.cycles, step.name))) for steps in kernels[:folds]]


def _parts(totals: Sums, phase: int) -> list[dict[str, Any]]:
    """Return the fields of `PartCycles` of each group of a phase."""
    columns = (getattr(totals, name)[phase].tolist() for name in ("cycles", "words", "hops", "cycles_by"))
    return [
        {"cycles": cycles, "words": words, "hops": hops, "cycles_by": dict(zip(CAUSES, by, strict=True))}
        for cycles, words, hops, by in zip(*columns, strict=True)
    ]
