"""Amounts of a run, and the differences between two runs: of ``wse compare A B`` and ``wse inspect A --diff B``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import Stretches, op_in_layer, stretches
from wse.tracing.query.costs.passes import crossing_bytes
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.tree import LayerOps, read_tree
from wse.tracing.query.traced_run import TracedRun, read_run
from wse_traces.read import Trace
from wse_traces.schema import CAUSES

LAYER: Final = "layer"
"""The kind of the changes of whole layers."""


class Amount(NamedTuple):
    """An amount of a run: its kind, name, unit, value, and layer."""

    kind: str
    name: str
    unit: str
    amount: float
    layer: int | None = None


@dataclass(frozen=True)
class Totals:
    """A run with its amounts.

    Attributes:
        run: The run as a whole, with the totals of its phases.
        tree: Its ops by layer, with their cycles in a mean pass.
        crossing_bytes: Bytes of a mean pass, by phase and whether to or from the host.
    """

    run: TracedRun
    tree: Sequence[LayerOps]
    crossing_bytes: Mapping[tuple[str, bool], float]


@dataclass(frozen=True, kw_only=True)
class Change(Result):
    """An amount that differs between two runs."""

    kind: Annotated[str, Doc("what kind of amount it is, such as `cause` or `traffic`")]
    name: Annotated[str, Doc("what it is the amount of; of an op of equal layers its name within the layer")]
    layer: Annotated[int | None, Doc("with `--each-layer`: the layer that it is of")] = None
    layers: Annotated[
        Stretches | None, Doc("of ops and layers: first and last of each stretch of layers with equal amounts")
    ] = None
    count: Annotated[int | None, Doc("of ops and layers: how many are together, their amounts summed")] = None
    unit: Annotated[str, Doc("its unit")]
    first: Annotated[float, Doc("amount in the first run")]
    second: Annotated[float, Doc("amount in the second")]
    change: Annotated[float, Doc("what the second has more")]
    fraction: Annotated[float | None, Doc("the change as a share of the first amount, where that is not 0")] = None
    only_in: Annotated[str | None, Doc("`first` or `second`, where the other has no such amount")] = None


def read_totals(trace: Trace) -> Totals:
    """Return the amounts of a trace.

    Raises TraceError if it is damaged.
    """
    sums = StepSums(trace)
    return Totals(read_run(trace, sums.phases()), read_tree(sums), crossing_bytes(trace))


def changes_by_phase(first: Totals, second: Totals, groups: Mapping[str, str]) -> dict[str, list[Change]]:
    """Return the differences in each phase that both runs have, and in total, the largest of each kind first.

    Args:
        first: The amounts of a run.
        second: Those of another.
        groups: The name of each grouping of ops, and how ops are put into groups: by ``kind``, ``layer`` or ``name``.
    """
    return {
        phase: changes([list(_amounts(totals, phase, groups)) for totals in (first, second)])
        for phase in first.run.phases
        if phase in second.run.phases
    }


def changes(sides: Sequence[Sequence[Amount]]) -> list[Change]:
    """Return the amounts that differ between two sides, by kind and then by size."""
    amounts: dict[tuple[str, str, str, int | None], dict[int, float]] = {}
    for number, side in enumerate(sides):
        for kind, name, unit, amount, layer in side:
            amounts.setdefault((kind, name, unit, layer), {})[number] = amount
    changed = []
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
        changed.append(change)
    return _largest_first(changed)


def fold_changes(unfolded: Sequence[Change]) -> list[Change]:
    """Return the changes with equal changes of several layers or ops combined, the largest of each kind first.

    Equal are ops of one name within their layers, and layers, whose amounts are equal on both sides.
    """
    equal: dict[tuple[Any, ...], list[Change]] = {}
    for number, change in enumerate(unfolded):
        key: tuple[Any, ...] = (number,)
        if change.layer is not None:
            key = change.kind, _shared_name(change), change.unit, change.first, change.second, change.only_in
        equal.setdefault(key, []).append(change)
    return _largest_first([_together(changes) for changes in equal.values()])


def _together(equal: Sequence[Change]) -> Change:
    """Return equal changes of several layers as one change."""
    one = equal[0]
    if one.layer is None:
        return one
    return replace(
        one,
        name=_shared_name(one),
        layer=None,
        layers=stretches(change.layer for change in equal if change.layer is not None),
        count=len(equal),
        first=one.first * len(equal),
        second=one.second * len(equal),
        change=one.change * len(equal),
    )


def _shared_name(change: Change) -> str:
    """Return the name that a change shares with those of other layers: of an op in its layer, or ``layer``."""
    return LAYER if change.kind == LAYER else op_in_layer(change.name, change.layer or 0)


def _largest_first(changes: Sequence[Change]) -> list[Change]:
    """Return changes by kind, in the order of the first of each, and then by size."""
    kinds = list(dict.fromkeys(change.kind for change in changes))
    return sorted(changes, key=lambda change: (kinds.index(change.kind), -abs(change.change)))


def _amounts(totals: Totals, phase: str, groups: Mapping[str, str]) -> Iterator[Amount]:
    """Yield total cycles, cycles by cause and by ``groups`` of ops, words, hops and bytes.

    Of all prompts, however many chunks they were read in, or of a mean decoded token of each user.
    """
    of_phase = totals.run.phases[phase]
    times = of_phase.passes if phase == "prefill" else 1
    yield Amount("all", "cycles", "cycle", of_phase.cycles_per_pass * times)
    for cause in CAUSES:
        yield Amount("cause", cause, "cycle", of_phase.cycles_by[cause] * times)
    for group, by in groups.items():
        sums: dict[tuple[str, int | None], float] = defaultdict(float)
        for layer in totals.tree:
            number = layer.layer if layer.layer >= 0 else None
            place = "outside of the layers" if number is None else f"{LAYER} {number}"
            for op in layer.ops:
                key = {"name": (op.op, number), "kind": (op.kind, None), LAYER: (place, number)}[by]
                sums[key] += getattr(op, phase) * times
        for (name, of_layer), cycles in sums.items():
            yield Amount(group, name, "cycle", cycles, of_layer)
    yield Amount("traffic", "words", "word", of_phase.words_per_pass * times)
    yield Amount("traffic", "wavelet hops", "wavelet-hop", of_phase.wavelet_hops_per_pass * times)
    yield Amount("traffic", "between wafers", "B", totals.crossing_bytes[phase, False] * times)
    yield Amount("traffic", "to and from the host", "B", totals.crossing_bytes[phase, True] * times)
