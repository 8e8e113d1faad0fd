"""Amounts of a run, and the differences between two runs: of ``wse compare A B`` and ``wse inspect A --diff B``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from wse.inspect.query.passes import crossing_bytes
from wse.inspect.query.step_sums import StepSums
from wse.inspect.query.traced_run import TracedRun, read_run
from wse.inspect.query.tree import LayerOps, read_tree
from wse.report.result import Doc, Result
from wse_traces.read import Trace
from wse_traces.schema import CAUSES


class Amount(NamedTuple):
    """An amount of a run: its kind and name, its unit, and the number."""

    kind: str
    name: str
    unit: str
    amount: float


@dataclass(frozen=True)
class Totals:
    """A run and its amounts.

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
    """An amount that is not the same in two runs."""

    kind: Annotated[str, Doc("what kind of amount it is, such as `cause` or `traffic`")]
    name: Annotated[str, Doc("what it is the amount of")]
    unit: Annotated[str, Doc("its unit")]
    first: Annotated[float, Doc("amount in the first run")]
    second: Annotated[float, Doc("amount in the second")]
    change: Annotated[float, Doc("what the second has more")]
    fraction: Annotated[float | None, Doc("the change as a share of the first amount, where that is not 0")] = None
    only_in: Annotated[str | None, Doc("`first` or `second`, where the other has no such amount")] = None


def read_totals(trace: Trace) -> Totals:
    """The amounts of a trace. Raises: TraceError if it is damaged."""
    sums = StepSums(trace)
    return Totals(read_run(trace, sums.phases()), read_tree(sums), crossing_bytes(trace))


def changes_by_phase(first: Totals, second: Totals, groups: Mapping[str, str]) -> dict[str, list[Change]]:
    """The differences in each phase that both have, and the whole; by kind, the largest difference first.

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
    """The amounts of two sides that differ, set beside each other, by kind and then the largest difference first."""
    amounts: dict[tuple[str, str, str], dict[int, float]] = {}
    for number, side in enumerate(sides):
        for kind, name, unit, amount in side:
            amounts.setdefault((kind, name, unit), {})[number] = amount
    changed = []
    for (kind, name, unit), by_side in amounts.items():
        first, second = (by_side.get(number, 0.0) for number in (0, 1))
        if first == second and len(by_side) == 2 and kind != "all":
            continue
        change = Change(
            kind=kind,
            name=name,
            unit=unit,
            first=first,
            second=second,
            change=second - first,
            fraction=(second - first) / first if first else None,
            only_in=("second" if 1 in by_side else "first") if len(by_side) == 1 else None,
        )
        changed.append(change)
    kinds = list(dict.fromkeys(kind for kind, *_ in amounts))
    return sorted(changed, key=lambda change: (kinds.index(change.kind), -abs(change.change)))


def _amounts(totals: Totals, phase: str, groups: Mapping[str, str]) -> Iterator[Amount]:
    """Cycles in all, by cause and by ``groups`` of ops; words, hops and bytes.

    Of all prompts, however many chunks they were read in, or of a mean decoded token of each user.
    """
    of_phase = totals.run.phases[phase]
    times = of_phase.passes if phase == "prefill" else 1
    yield Amount("all", "cycles", "cycle", of_phase.cycles_per_pass * times)
    for cause in CAUSES:
        yield Amount("cause", cause, "cycle", of_phase.cycles_by[cause] * times)
    for group, by in groups.items():
        sums: dict[str, float] = defaultdict(float)
        for layer in totals.tree:
            place = f"layer {layer.layer}" if layer.layer >= 0 else "outside of the layers"
            for op in layer.ops:
                sums[{"name": op.op, "kind": op.kind, "layer": place}[by]] += getattr(op, phase) * times
        for name, cycles in sums.items():
            yield Amount(group, name, "cycle", cycles)
    yield Amount("traffic", "words", "word", of_phase.words_per_pass * times)
    yield Amount("traffic", "wavelet hops", "wavelet-hop", of_phase.wavelet_hops_per_pass * times)
    yield Amount("traffic", "between wafers", "B", totals.crossing_bytes[phase, False] * times)
    yield Amount("traffic", "to and from the host", "B", totals.crossing_bytes[phase, True] * times)
