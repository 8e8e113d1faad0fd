"""View of cycles summed by op, kind of op, layer, cause, token or wafer, for each phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from wse.errors import BadInput, BadTrace, UnknownName
from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import OpNumbers, Ranges, layers_by_group
from wse.tracing.query.costs.kinds import PartCycles, read_kinds
from wse.tracing.query.costs.step_sums import PassTotals, StepSums, cycle_fraction
from wse.tracing.query.view import View, name_at
from wse_traces.reader.executed_steps import cache_shifts, schedule_rows
from wse_traces.reader.groups import distinct_rows, group_sums, range_sums
from wse_traces.reader.read import Array
from wse_traces.schema import CAUSES, PHASES

_ROW_BYTES: Final = 1 << 10  # approximate size of a group in memory


class Group(Result):
    """Cycles and traffic of a group of a run's steps in one phase.

    Steps can be grouped by op, layer, wafer, cause and so on. Only the fields for the chosen
    grouping are set.
    """

    phase: Annotated[str, Doc("`prefill`, `decode` or `verify`")]
    op: Annotated[
        str | None,
        Doc("by op: name of the op, within its layer if equal ops are combined; empty for steps without an op"),
    ] = None
    kind: Annotated[str | None, Doc("by op and kind: kind of op")] = None
    layer: Annotated[int | None, Doc("with `--each-layer`: layer of the model, -1: outside of the layers")] = None
    layers: Annotated[
        Ranges | None,
        Doc("by op, kind and layer: first and last layer of each range of layers; empty: outside of the layers"),
    ] = None
    count: Annotated[int | None, Doc("by op, kind and layer: number of ops or layers that are combined")] = None
    wafer: Annotated[int | None, Doc("by wafer: index of the wafer, -1: the host")] = None
    cause: Annotated[str | None, Doc("by cause: what the cycles are spent on")] = None
    token: Annotated[int | None, Doc("by token: first token that the pass read or generated, -1: none")] = None
    tokens: Annotated[int | None, Doc("by token: number of tokens of the pass")] = None
    text: Annotated[str | None, Doc("by token: text of the first token")] = None
    pass_: Annotated[int | None, Doc("by token: index of the pass")] = None
    start_cycle: Annotated[int | None, Doc("by token: start of the pass, from the start of the run", "cycles")] = None
    cycles: Annotated[
        int, Doc("sum over the run; if groups are tokens, from the start of the pass to its end", "cycles")
    ]
    words: Annotated[int | None, Doc("words sent; not by cause", "words")] = None
    hops: Annotated[
        int | None, Doc("links that these words cross, summed over words; not by cause", "wavelet-hops")
    ] = None
    mostly: Annotated[str | None, Doc("cause with the most cycles; not by cause")] = None
    most_in: Annotated[
        str | None, Doc("by cause: op with the most cycles, over all layers, or in one layer with `--each-layer`")
    ] = None
    most_fraction: Annotated[float | None, Doc("by cause: fraction of the cycles that `most_in` accounts for")] = None
    cycles_per_pass: Annotated[float | None, Doc("mean cycles per pass; missing if groups are tokens", "cycles")] = None
    fraction: Annotated[float, Doc("fraction of the cycles of the phase")] = 0.0


class GroupsView(View):
    """The cycles of each phase, divided into groups such as ops, layers or causes.

    ``groups`` contains the groups of all phases, with the largest of each phase first.
    """

    TABLE: ClassVar[str] = "groups"

    by: Annotated[str, Doc("key by which cycles are grouped")]
    phases: Annotated[Mapping[str, PassTotals], Doc("totals of each phase that ran")]
    groups: Annotated[tuple[Group, ...], Doc("groups of each phase, the largest first")]


def check_group(by: str, *, each_layer: bool) -> None:
    """Check a step grouping that the user requested.

    Args:
        by: Name of the grouping, such as "op" or "layer".
        each_layer: True if the user requested one row for every layer, even for layers with equal
            cycles. Only some groupings support this.

    Raises:
        UnknownName: There is no such grouping.
        BadInput: The grouping cannot be listed layer by layer.
    """
    if by not in _GROUPS:
        raise UnknownName("group", by, _GROUPS, place="--by")
    if each_layer and by not in _EACH_LAYER:
        groups = ", ".join(f"--by {name}" for name in _EACH_LAYER)
        raise BadInput(f"--each-layer: applies to {groups}, not to --by {by}; leave it out")


def read_groups(sums: StepSums, by: str, top: int | None, *, each_layer: bool = False) -> list[Group]:
    """Break down the cycle count of each phase into groups with the largest group first.

    Args:
        sums: Steps of a trace.
        by: What the steps are grouped by, such as ``op``, ``layer`` or ``cause``.
        top: Maximum number of groups per phase, or None for all.
        each_layer: True to return a group for every layer and op. False to combine layers and ops
            with equal cycles into one group (``wse.tracing.query.costs.folds``).
    """
    groups = list((_EACH_LAYER if each_layer else _GROUPS)[by](sums))
    largest_groups: list[Group] = []
    for phase in PHASES:
        phase_groups = [group for group in groups if group.phase == phase]
        total, passes = sum(group.cycles for group in phase_groups), max(1, sums.passes[phase])
        for group in sorted(phase_groups, key=lambda group: -group.cycles)[:top]:
            per_pass = None if by == "token" else group.cycles / passes
            largest_groups.append(
                replace(group, fraction=cycle_fraction(group.cycles, total), cycles_per_pass=per_pass)
            )
    return largest_groups


def _kinds(sums: StepSums) -> Iterator[Group]:
    """Yield a group of steps for each kind of op, such as ``norm``, in each phase."""
    for phase, kinds in read_kinds(sums).items():
        for kind in kinds:
            yield Group.from_parts(kind, phase=phase)


def _equal_ops(sums: StepSums) -> Iterator[Group]:
    """Yield a group for each op in each phase. Equal ops of different layers share a group."""
    for phase, kinds in read_kinds(sums).items():
        for kind in kinds:
            for ops in kind.ops:
                yield Group.from_parts(ops, phase=phase, kind=kind.kind)


def _ops(sums: StepSums) -> Iterator[Group]:
    """Yield a group for each op in each phase. Ops of different layers have different groups."""
    heads = [{"op": op["name"], "kind": op["kind"], "layer": op["layer"]} for op in sums.trace.records("op")]
    op = sums.steps["op"]
    op = np.where((op >= 0) & (op < len(heads)), op, len(heads))
    return _step_groups(sums, op, [*heads, {"op": ""}])


def _by_column(sums: StepSums, name: str) -> Iterator[Group]:
    """Yield a group for each value of a column of the steps, such as the layer, in each phase."""
    values, group = np.unique(sums.steps[name], return_inverse=True)
    return _step_groups(sums, group, [{name: value} for value in values.tolist()])


def _equal_layers(sums: StepSums) -> Iterator[Group]:
    """Yield a group of steps for each set of layers with equal cycles, in each phase.

    Layers are in the same set if they take the same number of cycles for every cause. All ops
    outside the layers form one group.
    """
    layers, layer_of = np.unique(sums.steps["layer"], return_inverse=True)
    totals = sums.by_group(layer_of, len(layers))
    for code in range(len(PHASES)):
        keys, fold = distinct_rows([layers < 0, *totals.cycles_by[code].T])
        ranges, count = layers_by_group(layers, fold, len(keys)), np.bincount(fold, minlength=len(keys)).tolist()
        heads = [{"layers": ranges[at], "count": count[at]} for at in range(len(keys))]
        step_groups = np.where(sums.steps["phase"] == code, fold[layer_of], -1)
        yield from _step_groups(sums, step_groups, heads)


def _step_groups(sums: StepSums, group: Array, heads: Sequence[dict[str, Any]]) -> Iterator[Group]:
    """Yield a group with the total cycles and words of each set of steps, in each phase.

    Sets that have neither cycles nor words in a phase are omitted.

    Args:
        sums: Steps of a trace.
        group: int ``[step]``: index of the set that each step belongs to, or -1.
        heads: For each set, the `Group` fields that identify it, such as the layer.
    """
    totals = sums.by_group(group, len(heads))
    for code, phase in enumerate(PHASES):
        for head, total in zip(heads, totals.parts(code), strict=True):
            part = PartCycles(**total)
            if part.cycles or part.words:
                yield Group.from_parts(part, phase=phase, **head)


def _causes(sums: StepSums, *, each_layer: bool = False) -> Iterator[Group]:
    """Yield a group for each cause of cycles, such as hops, in each phase; name the costliest op.

    The costliest op is the op in which the cause accounts for the most cycles. Causes without
    cycles are omitted. Groups have no words or hops: words belong to whole steps, whose cycles can
    have several causes.

    Args:
        sums: Steps of a trace.
        each_layer: True if the same op of different layers counts as different ops. False if it
            counts as one op.
    """
    ops = OpNumbers(sums.trace)
    op, names = ops.number[ops.rows(sums.steps["op"])], ops.names
    if each_layer:
        op, names = sums.steps["op"], sums.trace.texts("graph/ops/name")
    op_cycles, totals = sums.by_group(op, len(names)).cycles_by, sums.by_phase().cycles_by[:, 0]
    for code, phase in enumerate(PHASES):
        for at, cause in enumerate(CAUSES):
            if cycles := int(totals[code, at]):
                group = Group(phase=phase, cause=cause, cycles=cycles)
                if names and (max_cycles := int(op_cycles[code, :, at].max())):
                    most_in = names[int(op_cycles[code, :, at].argmax())]
                    group = replace(group, most_in=most_in, most_fraction=max_cycles / cycles)
                yield group


def _tokens(sums: StepSums) -> Iterator[Group]:
    """Yield a group for each pass of the run, with the tokens that the pass read or generated.

    Raises:
        BadTrace: There are too many passes to list.
    """
    trace, max_passes = sums.trace, sums.trace.limit_bytes // _ROW_BYTES
    if trace.rows("pass") > max_passes:
        raise BadTrace(
            f"{trace.path}: {trace.rows('pass'):,} passes, at most {max_passes:,} are listed by token; use --by op"
        )
    tokens, texts = trace.table("token"), trace.token_texts()
    schedule, start = trace.column("passes/schedule"), trace.column("passes/start_cycle")
    phase, cycles = trace.column("schedules/phase"), trace.column("schedules/cycles")
    first, steps = schedule_rows(trace)
    pass_sums = {
        name: range_sums(trace.column(f"steps/{name}"), first, first + steps)[schedule]
        for name in ("words", "hops", "cycles_by")
    }
    shifts = cache_shifts(trace)
    for name in ("words", "hops"):
        pass_sums[name] += group_sums(shifts[name], shifts["pass"], len(schedule))
    passes = np.unique(tokens["pass"], return_index=True, return_counts=True)
    pass_tokens = {index: (at, count) for index, at, count in zip(*(column.tolist() for column in passes), strict=True)}
    for index, at in enumerate(schedule.tolist()):
        name = name_at(PHASES, int(phase[at]))
        if not name:
            continue
        token, count = pass_tokens.get(index, (-1, 0))
        by_cause = pass_sums["cycles_by"][index]
        yield Group(
            phase=name,
            token=token,
            tokens=count,
            text=texts[token] if token >= 0 else "",
            pass_=index,
            start_cycle=int(start[index]),
            cycles=int(cycles[at]),
            words=int(pass_sums["words"][index]),
            hops=int(pass_sums["hops"][index]),
            mostly=CAUSES[int(by_cause.argmax())] if by_cause.any() else "",
        )


_GROUPS: Final[dict[str, Callable[[StepSums], Iterator[Group]]]] = {
    "op": _equal_ops,
    "kind": _kinds,
    "layer": _equal_layers,
    "cause": _causes,
    "token": _tokens,
    "wafer": partial(_by_column, name="wafer"),
}
_EACH_LAYER: Final[dict[str, Callable[[StepSums], Iterator[Group]]]] = {
    "op": _ops,
    "layer": partial(_by_column, name="layer"),
    "cause": partial(_causes, each_layer=True),
}
