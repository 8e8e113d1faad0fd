"""Cycles by kind of op, such as ``norm``, for the page of a trace and ``wse inspect --by kind``.

A kind consists of sets of equivalent ops of different layers, and the steps of such a set are
summed by kernel or communication pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import OpNumbers, Ranges, layers_by_group
from wse.tracing.query.costs.step_sums import StepSums, Sums
from wse.tracing.query.view import name_at
from wse_traces.reader.groups import distinct_rows
from wse_traces.reader.read import Array
from wse_traces.schema import CAUSES, KINDS, PHASES


class PartCycles(Result):
    """Cycles and traffic of some steps in one phase, summed over the run.

    Subclasses describe the steps of one kernel, of one op or of one kind of op.
    """

    cycles: Annotated[int, Doc("sum over the run", "cycles")]
    cycles_by: Annotated[Mapping[str, int], Doc("the cycles by cause", "cycles")]
    words: Annotated[int, Doc("words sent", "words")]
    hops: Annotated[int, Doc("links that these words cross, summed over words", "wavelet-hops")]

    @property
    def mostly(self) -> str:
        """Cause with the most cycles, or "" if there are no cycles."""
        return max(self.cycles_by, key=lambda cause: self.cycles_by[cause]) if self.cycles else ""


class KernelCycles(PartCycles):
    """Cycles that an op spends on one kernel or communication pattern, summed over equal layers.

    Each step of an op either runs a kernel on the PEs or transfers words in a certain pattern.
    """

    name: Annotated[str, Doc("kernel or pattern")]
    kind: Annotated[str, Doc("`compute`, `transfer` or `cross`")]


class EqualOps(PartCycles):
    """Op of one or more layers, reported in one row because it needs the same cycles in each layer.

    For example, ``layers.0.qkv`` and ``layers.1.qkv`` share a row if both spend the same number of
    cycles on each cause. All numbers of cycles, words and hops are sums over these ops.
    """

    op: Annotated[str, Doc("name of the op within its layer; empty for steps without an op")]
    layers: Annotated[Ranges, Doc("first and last layer of each range of layers; empty outside of the layers")]
    count: Annotated[int, Doc("number of these ops")]
    steps: Annotated[
        tuple[KernelCycles, ...], Doc("steps of the ops, one row for each kernel or pattern, most cycles first")
    ]


class OpKind(PartCycles):
    """All ops of one kind, such as ``norm``, with their total cycles in one phase.

    ``ops`` divides them into sets of equivalent ops, with the costliest first.
    """

    kind: Annotated[str, Doc("what the ops do; empty for steps without an op")]
    layers: Annotated[Ranges, Doc("first and last layer of each range of layers; empty outside of the layers")]
    count: Annotated[int, Doc("number of these ops")]
    ops: Annotated[tuple[EqualOps, ...], Doc("the ops, equal ones combined, the costliest first")]


def read_kinds(sums: StepSums) -> dict[str, tuple[OpKind, ...]]:
    """Return the op kinds of each phase that ran, sorted by decreasing cycles.

    The keys are phase names. Kinds with neither cycles nor words are omitted. Equivalent ops are
    combined (``wse.tracing.query.costs.folds``).
    """
    ops = OpNumbers(sums.trace)
    op = ops.rows(sums.steps["op"])
    totals = sums.by_group(op, len(ops.number))
    return {phase: _kinds_of(sums, ops, op, totals, code) for code, phase in enumerate(PHASES) if sums.passes[phase]}


def _kinds_of(sums: StepSums, ops: OpNumbers, op: Array, totals: Sums, phase: int) -> tuple[OpKind, ...]:
    """Return the total cycle count of each kind of op, such as ``norm``, in one phase.

    The kinds are sorted by decreasing cycles.

    1. Group equal ops of different layers. Omit ops with neither cycles nor words.
    2. Sum the cycles and the traffic of each group, and also of each kernel or pattern in it.
    3. Combine the groups of the same kind.

    Args:
        sums: Steps of a trace.
        ops: Names, kinds and layers of the model's ops.
        op: int ``[step]``: index of each step's op. Steps without an op have the last index.
        totals: Cycles and traffic of each op.
        phase: Code of the phase, an index into ``PHASES``.
    """
    # 1. Groups of equal ops
    active = np.flatnonzero((totals.cycles[phase] != 0) | (totals.words[phase] != 0))
    keys, group = distinct_rows([ops.number[active], *totals.cycles_by[phase, active].T])
    layers = layers_by_group(ops.layer[active], group, len(keys))
    sizes = np.bincount(group, minlength=len(keys)).tolist()
    # 2. Sums
    fold = np.full(len(ops.number), -1)
    fold[active] = group
    parts = sums.by_group(fold[op], len(keys)).parts(phase)
    steps = _kernels(sums, np.where(sums.steps["phase"] == phase, fold[op], -1), len(keys), phase)
    # 3. Kinds
    equal: dict[str, list[tuple[EqualOps, Array]]] = {}
    for at, number in enumerate(keys[:, 0].tolist()):
        members = active[group == at]
        folded = EqualOps(op=ops.names[number], layers=layers[at], count=sizes[at], steps=steps[at], **parts[at])
        equal.setdefault(ops.kinds[number], []).append((folded, members))
    kinds = [_kind(kind, folds, ops) for kind, folds in equal.items()]
    return tuple(sorted(kinds, key=lambda kind: (-kind.cycles, kind.kind)))


def _kind(kind: str, folds: list[tuple[EqualOps, Array]], ops: OpNumbers) -> OpKind:
    """Add up the cycles and words of all ops of one kind.

    Args:
        kind: Name of the kind.
        folds: Groups of equal ops (the same op in several layers), each as a pair: the totals of
            the group, and the indices of its ops.
        ops: Names, kinds and layers of the model's ops.
    """
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
    """Break down the cycles of each set of equal ops by kernel or communication pattern.

    A set consists of the same op of several layers with equal cycles.

    Args:
        sums: Steps of a trace.
        fold: int ``[step]``: index of the set that each step belongs to, or -1.
        folds: Number of sets.
        phase: Code of the phase.

    Returns:
        For each set, the kernels and patterns, sorted by decreasing cycles.
    """
    fold_or_last = np.where(fold >= 0, fold, folds)  # steps of no set are put into an extra one
    keys, group = distinct_rows([fold_or_last, sums.steps["name"], sums.steps["kind"]])
    parts, names = sums.by_group(group, len(keys)).parts(phase), sums.trace.texts("strings/names")
    kernels: list[list[KernelCycles]] = [[] for _ in range(folds + 1)]
    for (at, name, kind), part in zip(keys.tolist(), parts, strict=True):
        kernels[at].append(KernelCycles(name=name_at(names, name), kind=name_at(KINDS, kind), **part))
    return [tuple(sorted(steps, key=lambda step: (-step.cycles, step.name))) for steps in kernels[:folds]]
