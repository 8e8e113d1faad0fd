"""What a trace adds up to, and what differs between two: of ``wse compare A B`` and of ``wse inspect A --diff B``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wse.inspect.query.crossings import crossing_bytes
from wse.inspect.query.opened import Facts
from wse.inspect.query.work import Work
from wse_traces.read import Trace
from wse_traces.schema import CAUSES, PHASES, USES


@dataclass(frozen=True)
class Totals:
    """Amounts of a run.

    Attributes:
        phases: ``Work.phases``.
        ops: By phase, name, kind and layer of each op, with its cycles in a mean pass.
        carried: Bytes of a mean pass, by phase and whether to or from the host.
        sram_bytes: By use, on the fullest PE of all; empty where it is not told.
    """

    phases: Facts
    ops: dict[str, list[tuple[str, str, int, float]]]
    carried: dict[tuple[str, bool], float]
    sram_bytes: dict[str, int]


def totals_of(trace: Trace) -> Totals:
    """Add up a trace. Raises: TraceError if it is damaged."""
    work = Work(trace)
    names, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    layers = trace.column("graph/ops/layer").tolist()
    cycles = work.sums(work.steps["op"], len(names)).cycles
    ops = {
        phase: [
            (*op, spent / max(1, work.passes[phase]))
            for *op, spent in zip(names, kinds, layers, cycles[code].tolist(), strict=True)
        ]
        for code, phase in enumerate(PHASES)
    }
    stages = [dict(zip(USES, row, strict=True)) for row in trace.column("sram/stage_bytes").tolist()]
    fullest = min(stages, key=lambda stage: stage["free"], default={})
    return Totals(work.phases(), ops, crossing_bytes(trace), fullest)


def amounts(totals: Totals, phase: str, groups: Mapping[str, str]) -> Iterator[tuple[str, str, str, float]]:
    """(kind, name, unit, amount): cycles in all, by cause and by ``groups`` of ops; words, hops and bytes.

    Of all prompts, however many chunks they were read in, or of a mean decoded token of each user.

    Args:
        totals: Of a run that has the phase.
        phase: ``prefill`` or ``decode``.
        groups: What a group is called, and how ops are put into it: by ``kind``, ``layer`` or ``name``.
    """
    facts = totals.phases[phase]
    runs = facts["passes"] if phase == "prefill" else 1
    yield "all", "cycles", "cycle", facts["cycles_per_pass"] * runs
    for cause in CAUSES:
        yield "cause", cause, "cycle", facts["cycles_by"][cause] * runs
    for group, key in groups.items():
        sums: dict[str, float] = defaultdict(float)
        for name, kind, layer, cycles in totals.ops[phase]:
            at = f"layer {layer}" if layer >= 0 else "outside of the layers"
            sums[{"name": name, "kind": kind, "layer": at}[key]] += cycles * runs
        for name, amount in sums.items():
            yield group, name, "cycle", amount
    yield "traffic", "words", "word", facts["words_per_pass"] * runs
    yield "traffic", "wavelet hops", "wavelet-hop", facts["wavelet_hops_per_pass"] * runs
    yield "traffic", "between wafers", "B", totals.carried[phase, False] * runs
    yield "traffic", "to and from the host", "B", totals.carried[phase, True] * runs


def changes(first: Totals, second: Totals, phase: str, groups: Mapping[str, str]) -> list[Facts]:
    """What differs in a phase that both have, and the whole; by kind, the largest difference first.

    ``fraction`` is the change as a share of the first amount, where that is not 0; ``only_in`` says which of both has
    it, where one has not.
    """
    return differing([list(amounts(totals, phase, groups)) for totals in (first, second)])


def differing(sides: Sequence[Sequence[tuple[str, str, str, float]]]) -> list[Facts]:
    """The amounts of two sides that differ, set beside each other, as ``changes`` says."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for number, side in enumerate(sides):
        for kind, name, unit, amount in side:
            found.setdefault((kind, name, unit), {})[number] = amount
    rows: list[Facts] = []
    for (kind, name, unit), both in found.items():
        a, b = (both.get(number, 0.0) for number in (0, 1))
        if a == b and len(both) == 2 and kind != "all":
            continue
        row: Facts = {"kind": kind, "name": name, "unit": unit, "first": a, "second": b, "change": b - a}
        if a:
            row["fraction"] = (b - a) / a
        if len(both) == 1:
            row["only_in"] = "second" if 1 in both else "first"
        rows.append(row)
    kinds = list(dict.fromkeys(kind for kind, *_ in found))
    return sorted(rows, key=lambda row: (kinds.index(str(row["kind"])), -abs(float(row["change"]))))
