"""Differences between two runs, for ``wse compare A B`` and ``wse inspect A --diff B``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import Ranges, consecutive_ranges, op_in_layer
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.steps import crossing_bytes
from wse.tracing.query.costs.tree import LayerOps, read_tree
from wse.tracing.query.summary import TracedRun, read_run
from wse_traces.reader.read import Trace
from wse_traces.schema import CAUSES

LAYER: Final = "layer"
"""Kind of the changes of whole layers."""


class Amount(NamedTuple):
    """A quantity of a run, such as the cycles of an op, to compare with that of another run.

    Attributes:
        kind: Kind of quantity, such as "cause" or "traffic".
        name: Item to which the amount belongs, such as a cause or an op.
        unit: Unit of the amount.
        amount: Value in that unit.
        layer: Layer of the op, or None if the item is not an op in a layer.
    """

    kind: str
    name: str
    unit: str
    amount: float
    layer: int | None = None


@dataclass(frozen=True)
class Totals:
    """All quantities of a run that can be compared with those of another run.

    Attributes:
        run: Description of the run, with the totals of its phases.
        tree: Ops of each layer, with their mean cycles per pass.
        crossing_bytes: Mean bytes per pass sent between wafers, or between a wafer and the host.
            Each key is a pair of the phase name and whether the host sends or receives the bytes.
    """

    run: TracedRun
    tree: Sequence[LayerOps]
    crossing_bytes: Mapping[tuple[str, bool], float]


class Change(Result):
    """Quantity that differs between two runs, such as the cycles of an op, with both amounts.

    If ops or layers have equal changes, one object can represent all of them. Its amounts are the
    sums over these ops or layers.
    """

    kind: Annotated[str, Doc("kind of amount, such as `cause` or `traffic`")]
    name: Annotated[str, Doc("item that the amount belongs to; for an op of equal layers, the name within the layer")]
    layer: Annotated[int | None, Doc("with `--each-layer`: layer of the op")] = None
    layers: Annotated[
        Ranges | None, Doc("of ops and layers: first and last layer of each range of layers with equal amounts")
    ] = None
    count: Annotated[int | None, Doc("of ops and layers: number of equal items whose amounts are summed")] = None
    unit: Annotated[str, Doc("unit of the amounts")]
    first: Annotated[float, Doc("amount in the first run")]
    second: Annotated[float, Doc("amount in the second run")]
    change: Annotated[float, Doc("amount in the second run minus that in the first")]
    fraction: Annotated[float | None, Doc("change as a fraction of the first amount, if that is not 0")] = None
    only_in: Annotated[str | None, Doc("`first` or `second`, if the other run has no such amount")] = None


def read_totals(trace: Trace) -> Totals:
    """Read the quantities of a run, such as its cycles and traffic, that can be compared.

    Raises:
        TraceError: The trace is damaged.
    """
    sums = StepSums(trace)
    return Totals(read_run(trace, sums.phases()), read_tree(sums), crossing_bytes(trace))


def changes_by_phase(first: Totals, second: Totals, groups: Mapping[str, str]) -> dict[str, list[Change]]:
    """Return the differences between two runs for each phase that occurs in both.

    Changes are sorted by kind, and by decreasing size within a kind.

    Args:
        first: Quantities of the first run.
        second: Quantities of the second run.
        groups: Op groupings, keyed by the kind of change. Each value specifies how ops are grouped:
            by ``kind``, ``layer`` or ``name``.
    """
    return {
        phase: changes([list(_amounts(totals, phase, groups)) for totals in (first, second)])
        for phase in first.run.phases
        if phase in second.run.phases
    }


def changes(sides: Sequence[Sequence[Amount]]) -> list[Change]:
    """Return the quantities that differ between two runs.

    They are sorted by kind, and by decreasing size within a kind. Total cycles (kind "all") are
    always returned, even if they are equal.

    Args:
        sides: Amounts of the first run and of the second run.
    """
    amounts: dict[tuple[str, str, str, int | None], dict[int, float]] = {}
    for number, side in enumerate(sides):
        for kind, name, unit, amount, layer in side:
            amounts.setdefault((kind, name, unit, layer), {})[number] = amount
    differences = []
    for (kind, name, unit, layer), by_side in amounts.items():
        first, second = (by_side.get(number, 0.0) for number in (0, 1))
        if first == second and len(by_side) == 2 and kind != "all":
            continue
        change = Change(
            kind=kind,
            name=name,
            layer=layer,
            unit=unit,
            first=first,
            second=second,
            change=second - first,
            fraction=(second - first) / first if first else None,
            only_in=("second" if 1 in by_side else "first") if len(by_side) == 1 else None,
        )
        differences.append(change)
    return _largest_first(differences)


def fold_changes(unfolded: Sequence[Change]) -> list[Change]:
    """Combine equal changes of several layers or ops into one.

    Changes of ops are equal if the ops have the same name within their layers and the same amounts
    in both runs. Changes of layers are equal if they have the same amounts in both runs. The result
    is sorted by kind, and by decreasing size within a kind.
    """
    equal: dict[tuple[Any, ...], list[Change]] = {}
    for number, change in enumerate(unfolded):
        key: tuple[Any, ...] = (number,)
        if change.layer is not None:
            key = change.kind, _shared_name(change), change.unit, change.first, change.second, change.only_in
        equal.setdefault(key, []).append(change)
    return _largest_first([_combine(changes) for changes in equal.values()])


def _combine(equal: Sequence[Change]) -> Change:
    """Combine identical changes of different layers into one change, adding up their amounts."""
    change = equal[0]
    if change.layer is None:
        return change
    return replace(
        change,
        name=_shared_name(change),
        layer=None,
        layers=consecutive_ranges(member.layer for member in equal if member.layer is not None),
        count=len(equal),
        first=change.first * len(equal),
        second=change.second * len(equal),
        change=change.change * len(equal),
    )


def _shared_name(change: Change) -> str:
    """Return the name of a combined change, such as "gate_up" for ``layers.3.gate_up``.

    It is "layer" if the change is that of a whole layer.
    """
    return LAYER if change.kind == LAYER else op_in_layer(change.name, change.layer or 0)


def _largest_first(changes: Sequence[Change]) -> list[Change]:
    """Sort changes by kind, and by decreasing size within a kind.

    Kinds are ordered by their first change.
    """
    kinds = list(dict.fromkeys(change.kind for change in changes))
    return sorted(changes, key=lambda change: (kinds.index(change.kind), -abs(change.change)))


def _amounts(totals: Totals, phase: str, groups: Mapping[str, str]) -> Iterator[Amount]:
    """Yield the quantities of one phase: total cycles, cycles per cause and per op, and traffic.

    For prefill, amounts are totals over all prompts. They thus do not depend on the size of the
    chunks in which prompts are read. For other phases, they are means per pass.

    Args:
        totals: Quantities of the run.
        phase: Name of the phase.
        groups: Op groupings, keyed by the kind of change. Each value specifies how ops are grouped:
            by ``kind``, ``layer`` or ``name``.
    """
    phase_totals = totals.run.phases[phase]
    pass_count = phase_totals.passes if phase == "prefill" else 1
    yield Amount("all", "cycles", "cycle", phase_totals.cycles_per_pass * pass_count)
    for cause in CAUSES:
        yield Amount("cause", cause, "cycle", phase_totals.cycles_by[cause] * pass_count)
    for group, grouping in groups.items():
        sums: dict[tuple[str, int | None], float] = defaultdict(float)
        for layer in totals.tree:
            number = layer.layer if layer.layer >= 0 else None
            place = "outside of the layers" if number is None else f"{LAYER} {number}"
            for op in layer.ops:
                key = {"name": (op.op, number), "kind": (op.kind, None), LAYER: (place, number)}[grouping]
                sums[key] += getattr(op, phase) * pass_count
        for (name, layer_index), cycles in sums.items():
            yield Amount(group, name, "cycle", cycles, layer_index)
    yield Amount("traffic", "words", "word", phase_totals.words_per_pass * pass_count)
    yield Amount("traffic", "wavelet hops", "wavelet-hop", phase_totals.wavelet_hops_per_pass * pass_count)
    yield Amount("traffic", "between wafers", "B", totals.crossing_bytes[phase, False] * pass_count)
    yield Amount("traffic", "to and from the host", "B", totals.crossing_bytes[phase, True] * pass_count)
