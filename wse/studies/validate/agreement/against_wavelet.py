"""Agreement of the two timing readers: the fabric model's cycles and link loads against those of the wavelets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import LineTime
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.links.loads import line_loads
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import STEP, Machine
from wse.backends.wavelet.run import MachineRun, run
from wse.errors import UnknownName
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.line_patterns import patterns
from wse.program.steps import COLUMNS, ROWS
from wse.reports.progress import OnProgress, ignore
from wse.studies.validate.agreement.layers import ON_MESH, LayerCase, layers, prefill_layers, time_layers, verify_layers
from wse.studies.validate.agreement.result import Agreement, AgreementRow, AgreementSummary, PatternErrors
from wse_mappings.patterns.sampling import Case, PlacedPattern, Sizes

I64 = npt.NDArray[np.int64]

REFERENCES: Final = ("wavelet",)
PROFILES: Final = ("tuned", "academic")
LAYERS: Final = {"decode layers": layers, "prefill layers": prefill_layers, "verify layers": verify_layers}
"""Names of whole layers, instead of a pattern, and the functions that make them."""
CONFIGURATIONS_PER_PATTERN: Final = 4  # configurations of a pattern, a wafer and a software profile
SEED: Final = 1
JUDGED_CYCLES: Final = 200  # above these, a relative error says something


@cache
def samples() -> Mapping[str, Callable[[Sizes], Case]]:
    """Return the functions that make cases, by name; those of users' packages come last.

    Raises:
        BadInput: a package brings a pattern that cannot be used.
    """
    return {name: make for pattern in patterns().values() for name, make in pattern.samples.items()}


def cases(name: str, count: int, seed: int) -> Iterator[Case]:
    """``count`` cases of one pattern; the same ones for the same seed."""
    rng = np.random.default_rng([seed, *name.encode()])
    for _ in range(count):
        yield samples()[name](Sizes(rng))


def compare(case: Case, wafer: WaferSpec, software: SoftwareProfile) -> AgreementRow:
    """Time one configuration by both readers."""
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    fast = _fast(case, costs)
    wavelet = _wavelet(case, wafer, software)
    return AgreementRow(
        pattern=case.pattern,
        wafer=wafer.name,
        software=software.name,
        rows=case.rows,
        cols=case.cols,
        words=case.words,
        detail=case.detail,
        fast_cycles=sum(time.cycles.total for time in fast) + (len(fast) - 1) * costs.gap,
        wavelet_cycles=wavelet.cycles,
        contention_cycles=sum(time.contention_cycles for time in fast),
        streams=max(time.streams for time in fast),
        loads_equal=bool(np.array_equal(_loads(case), wavelet.link_words)),
    )


def _fast(case: Case, costs: LineCosts) -> list[LineTime]:
    """Return the times of the groups of a case, one after another."""
    times = PatternTimes(costs)
    return [times.time([_slowest(laid, times) for laid in group]) for group in case.groups]


def _slowest(laid: PlacedPattern, times: PatternTimes) -> LinePattern:
    """Return the line of a pattern that takes longest."""
    schedule, round_ = laid.schedule, laid.round_ % len(laid.schedule.variants)
    variants = np.unique(schedule.variants[round_, [line for line, _ in laid.lines]])
    axis = COLUMNS if laid.lines[0][1][0][1] == laid.lines[0][1][-1][1] else ROWS
    choice = [LinePattern(schedule, variant, laid.words, axis) for variant in schedule.critical(variants)]
    return max(choice, key=lambda transfer: times.time([transfer]).cycles)


def _wavelet(case: Case, wafer: WaferSpec, software: SoftwareProfile) -> MachineRun:
    machine = Machine(wafer, case.rows, case.cols, sum(2 * laid.words for group in case.groups for laid in group))
    gap, relay = software.reduce_gap_cycles, software.relay_cycles
    one_by_one = Lines(machine=machine, gap_cycles=gap, relay_cycles=relay)
    colour, address = 0, 0
    for group in case.groups:
        for i, laid in enumerate(group):
            lines = one_by_one
            if len(group) > 1:
                main = 2 * wafer.colours * i
                lines = Lines(machine=machine, gap_cycles=gap, relay_cycles=relay, main=main)
            target = address if laid.reduces else address + laid.words
            free = [
                lines.path(
                    laid.schedule,
                    list(pes),
                    laid.words,
                    source=address,
                    target=target,
                    line=line,
                    round_=laid.round_,
                    colour=colour,
                )
                for line, pes in laid.lines
            ]
            colour, address = max(free), address + 2 * laid.words
    return run(machine)


def _loads(case: Case) -> I64:
    """Return the words that the fabric model counts on each link, int64 ``[4, rows, cols]``."""
    words = np.zeros((4, case.rows, case.cols), np.int64)
    for laid in (laid for group in case.groups for laid in group):
        one_round = replace(laid.schedule, variants=laid.schedule.variants[laid.round_][None])
        loads = line_loads(one_round, 1, laid.words)
        for line, pes in laid.lines:
            for direction, step_of in ((0, 1), (1, -1)):
                for place in np.flatnonzero(loads[direction, line]).tolist():
                    (row, col), (to_row, to_col) = pes[place], pes[place + step_of]
                    side = next(port for port, step in STEP.items() if step == (to_row - row, to_col - col))
                    words[side, row, col] += loads[direction, line, place]
    return words


def check_reference(name: str) -> None:
    """Refuse what ``--against`` does not know."""
    if name not in REFERENCES:
        raise UnknownName("reference", name, REFERENCES, where="--against")


def agreement(each: int, seed: int, on_progress: OnProgress = ignore) -> Agreement:
    """Compare both readers on ``each`` configurations of every pattern and of layers, by wafer and software profile."""
    wafers = {name: load_wafer(name) for name in GENERATIONS}
    rows: list[AgreementRow] = []
    plan = list(product([*samples(), *LAYERS], GENERATIONS, PROFILES))
    total = each * len(plan)
    for i, (pattern, wafer, profile) in enumerate(plan):
        machine, software = wafers[wafer], load_software(profile, wafers[wafer].generation)
        if pattern in LAYERS:
            for layers in LAYERS[pattern](each, seed + i):
                on_progress(len(rows), total, pattern)
                rows.append(compare_layers(pattern, layers, machine, software))
        else:
            for case in cases(pattern, each, seed + i):
                on_progress(len(rows), total, pattern)
                rows.append(compare(case, machine, software))
    on_progress(total, total, "")
    return Agreement(each=each, seed=seed, judged_above_cycles=JUDGED_CYCLES, rows=tuple(rows), summary=summarise(rows))


def compare_layers(name: str, layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> AgreementRow:
    """Time a decoded token, a prefill or a pass over several tokens, named as in LAYERS, by both readers."""
    cost, ran = time_layers(layers, wafer, software)
    return AgreementRow(
        pattern=name,
        wafer=wafer.name,
        software=software.name,
        rows=layers.rows,
        cols=layers.cols,
        words=0,
        detail=layers.description,
        fast_cycles=sum(cost.cause(name) for name in ON_MESH),
        wavelet_cycles=ran.cycles,
        contention_cycles=float(cost.contention.sum()),
        streams=int(cost.streams.max()),
        loads_equal=bool(np.array_equal(cost.links, ran.links)),
    )


def summarise(rows: Sequence[AgreementRow]) -> AgreementSummary:
    """Errors over all configurations and by pattern."""
    patterns = dict.fromkeys(row.pattern for row in rows)
    by_pattern = (PatternErrors(pattern=p, **_errors([row for row in rows if row.pattern == p])) for p in patterns)
    return AgreementSummary(**_errors(rows), by_pattern=tuple(by_pattern))


def _errors(rows: Sequence[AgreementRow]) -> dict[str, Any]:
    """Return the fields of `AgreementErrors`."""
    errors = [abs(row.error_pct) for row in rows if row.wavelet_cycles > JUDGED_CYCLES]
    return {
        "rows": len(rows),
        "judged": len(errors),
        "loads_equal": sum(row.loads_equal for row in rows),
        "median_abs_error_pct": median(errors) if errors else None,
        "worst_abs_error_pct": max(errors, default=None),
    }
