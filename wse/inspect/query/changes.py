"""What a run adds up to, and what differs between two: of ``wse compare A B`` and of ``wse inspect A --diff B``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from wse.inspect.query.crossings import crossing_bytes
from wse.inspect.query.step_sums import PhaseTotals, StepSums
from wse.report.result import Doc, Result
from wse_traces.read import Trace
from wse_traces.schema import CAUSES, PHASES, USES


class Amount(NamedTuple):
    """One amount of a run: its kind and name, its unit, and the number."""

    kind: str
    name: str
    unit: str
    amount: float


class OpTotal(NamedTuple):
    """An op with its cycles in a mean pass."""

    name: str
    kind: str
    layer: int
    cycles: float


@dataclass(frozen=True)
class Totals:
    """Amounts of a run.

    Attributes:
        phases: The totals of each phase that ran.
        ops: The ops by phase.
        carried: Bytes of a mean pass, by phase and whether to or from the host.
        sram_bytes: By use, on the fullest PE of all; empty where none was recorded.
    """

    phases: Mapping[str, PhaseTotals]
    ops: Mapping[str, list[OpTotal]]
    carried: Mapping[tuple[str, bool], float]
    sram_bytes: Mapping[str, int]


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
    names, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    layers, cycles = trace.column("graph/ops/layer").tolist(), sums.by_op().cycles
    ops = {
        phase: [
            OpTotal(name, kind, layer, spent / max(1, sums.passes[phase]))
            for name, kind, layer, spent in zip(names, kinds, layers, cycles[code].tolist(), strict=True)
        ]
        for code, phase in enumerate(PHASES)
    }
    stages = [dict(zip(USES, row, strict=True)) for row in trace.column("sram/stage_bytes").tolist()]
    fullest: dict[str, Any] = min(stages, key=lambda stage: stage["free"], default={})
    return Totals(sums.phases(), ops, crossing_bytes(trace), fullest)


def phase_changes(first: Totals, second: Totals, phase: str, groups: Mapping[str, str]) -> list[Change]:
    """What differs in a phase that both have, and the whole; by kind, the largest difference first.

    Args:
        first: The amounts of a run that has the phase.
        second: Those of another.
        phase: ``prefill`` or ``decode``.
        groups: What a group of ops is called, and how ops are put into it: by ``kind``, ``layer`` or ``name``.
    """
    return changes([list(_amounts(totals, phase, groups)) for totals in (first, second)])


def changes(sides: Sequence[Sequence[Amount]]) -> list[Change]:
    """The amounts of two sides that differ, set beside each other, by kind and then the largest difference first."""
    amounts: dict[tuple[str, str, str], dict[int, float]] = {}
    for number, side in enumerate(sides):
        for kind, name, unit, amount in side:
            amounts.setdefault((kind, name, unit), {})[number] = amount
    changed = []
    for (kind, name, unit), both in amounts.items():
        first, second = (both.get(number, 0.0) for number in (0, 1))
        if first == second and len(both) == 2 and kind != "all":
            continue
        change = Change(
            kind=kind,
            name=name,
            unit=unit,
            first=first,
            second=second,
            change=second - first,
            fraction=(second - first) / first if first else None,
            only_in=("second" if 1 in both else "first") if len(both) == 1 else None,
        )
        changed.append(change)
    kinds = list(dict.fromkeys(kind for kind, *_ in amounts))
    return sorted(changed, key=lambda change: (kinds.index(change.kind), -abs(change.change)))


def _amounts(totals: Totals, phase: str, groups: Mapping[str, str]) -> Iterator[Amount]:
    """Cycles in all, by cause and by ``groups`` of ops; words, hops and bytes.

    Of all prompts, however many chunks they were read in, or of a mean decoded token of each user.
    """
    of_phase = totals.phases[phase]
    times = of_phase.passes if phase == "prefill" else 1
    yield Amount("all", "cycles", "cycle", of_phase.cycles_per_pass * times)
    for cause in CAUSES:
        yield Amount("cause", cause, "cycle", of_phase.cycles_by[cause] * times)
    for group, by in groups.items():
        sums: dict[str, float] = defaultdict(float)
        for op in totals.ops[phase]:
            layer = f"layer {op.layer}" if op.layer >= 0 else "outside of the layers"
            sums[{"name": op.name, "kind": op.kind, "layer": layer}[by]] += op.cycles * times
        for name, cycles in sums.items():
            yield Amount(group, name, "cycle", cycles)
    yield Amount("traffic", "words", "word", of_phase.words_per_pass * times)
    yield Amount("traffic", "wavelet hops", "wavelet-hop", of_phase.wavelet_hops_per_pass * times)
    yield Amount("traffic", "between wafers", "B", totals.carried[phase, False] * times)
    yield Amount("traffic", "to and from the host", "B", totals.carried[phase, True] * times)
