"""Comparison of the fabric model with the wavelet reference, which simulates every cycle.

Both time the same random configurations. The cycle counts may differ, but the words per link must
be the same.
"""

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
from wse.backends.wavelet.machine import STEP, WaveletMachine
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
"""Functions that generate whole-layer cases, keyed by the name in the pattern column."""
CONFIGURATIONS_PER_PATTERN: Final = 4  # for each combination of pattern, wafer and software profile
SEED: Final = 1
JUDGED_CYCLES: Final = 200  # relative errors of shorter runs are not meaningful


@cache
def samples() -> Mapping[str, Callable[[Sizes], Case]]:
    """Return the communication patterns on which the two timing models are compared.

    Keys are pattern names, and values are functions that generate a random case. Patterns from
    other installed packages come last.

    Raises:
        BadInput: Another package provides a pattern that cannot be used.
    """
    return {name: make for pattern in patterns().values() for name, make in pattern.samples.items()}


def cases(name: str, count: int, seed: int) -> Iterator[Case]:
    """Yield random cases of a communication pattern.

    Args:
        name: Name of the pattern, a key of `samples`.
        count: Number of cases.
        seed: Random seed. The same seed gives the same cases.
    """
    rng = np.random.default_rng([seed, *name.encode()])
    for _ in range(count):
        yield samples()[name](Sizes(rng))


def compare(case: Case, wafer: WaferSpec, software: SoftwareProfile) -> AgreementRow:
    """Time a communication pattern with the fast timing model and with a cycle-by-cycle simulation.

    Args:
        case: The pattern, its mesh and its message size.
        wafer: Wafer type, which determines the cycles per link, ramp and router.
        software: Software costs of a PE, such as cycles for relaying a message or between two
            operations.

    Returns:
        The cycles according to both models, and whether both count the same words on every link.
    """
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    fast = _fast(case, costs)
    wavelet = _wavelet(case, wafer, software)
    return AgreementRow.from_parts(
        case,
        wafer=wafer.name,
        software=software.name,
        fast_cycles=sum(time.cycles.total for time in fast) + (len(fast) - 1) * costs.gap,
        wavelet_cycles=wavelet.cycles,
        contention_cycles=sum(time.contention_cycles for time in fast),
        streams=max(time.streams for time in fast),
        loads_equal=bool(np.array_equal(_loads(case), wavelet.link_words)),
    )


def _fast(case: Case, costs: LineCosts) -> list[LineTime]:
    """Time a case with the fast timing model, and return one result per group of patterns.

    A case is a list of groups of communication patterns. The patterns of a group run concurrently,
    and the groups run sequentially.
    """
    times = PatternTimes(costs)
    return [times.time([_slowest_line(placed_pattern, times) for placed_pattern in group]) for group in case.groups]


def _slowest_line(placed_pattern: PlacedPattern, times: PatternTimes) -> LinePattern:
    """Return the line of PEs on which a pattern takes longest in the fast timing model.

    The lines of a pattern run concurrently, so this line determines the time of the pattern.
    """
    schedule, round_ = placed_pattern.schedule, placed_pattern.round_ % len(placed_pattern.schedule.variants)
    variants = np.unique(schedule.variants[round_, [line for line, _ in placed_pattern.lines]])
    first_pe, last_pe = placed_pattern.lines[0][1][0], placed_pattern.lines[0][1][-1]
    axis = COLUMNS if first_pe[1] == last_pe[1] else ROWS
    choice = [LinePattern(schedule, variant, placed_pattern.words, axis) for variant in schedule.critical(variants)]
    return max(choice, key=lambda transfer: times.time([transfer]).cycles)


def _wavelet(case: Case, wafer: WaferSpec, software: SoftwareProfile) -> MachineRun:
    """Simulate the communication patterns of a case cycle by cycle.

    The patterns of a group start together. The next group starts when all of them have finished.
    """
    words_per_pe = sum(2 * placed_pattern.words for group in case.groups for placed_pattern in group)
    machine = WaveletMachine(wafer, case.rows, case.cols, words_per_pe)
    gap, relay = software.reduce_gap_cycles, software.relay_cycles
    one_by_one = Lines(machine=machine, gap_cycles=gap, relay_cycles=relay)
    colour, address = 0, 0
    for group in case.groups:
        for i, placed_pattern in enumerate(group):
            lines = one_by_one
            if len(group) > 1:
                main = 2 * wafer.colours * i
                lines = Lines(machine=machine, gap_cycles=gap, relay_cycles=relay, main=main)
            target = address if placed_pattern.reduces else address + placed_pattern.words
            next_colours = [
                lines.path(
                    placed_pattern.schedule,
                    list(pes),
                    placed_pattern.words,
                    source=address,
                    target=target,
                    line=line,
                    round_=placed_pattern.round_,
                    colour=colour,
                )
                for line, pes in placed_pattern.lines
            ]
            colour, address = max(next_colours), address + 2 * placed_pattern.words
    return run(machine)


def _loads(case: Case) -> I64:
    """Return the fast timing model's word count per link, int64 ``[4, rows, cols]``.

    The first axis is the direction in which a link leaves the router.
    """
    words = np.zeros((4, case.rows, case.cols), np.int64)
    for placed_pattern in (placed_pattern for group in case.groups for placed_pattern in group):
        schedule = placed_pattern.schedule
        one_round = replace(schedule, variants=schedule.variants[placed_pattern.round_][None])
        loads = line_loads(one_round, 1, placed_pattern.words)
        for line, pes in placed_pattern.lines:
            for direction, step_of in ((0, 1), (1, -1)):
                for place in np.flatnonzero(loads[direction, line]).tolist():
                    (row, col), (to_row, to_col) = pes[place], pes[place + step_of]
                    side = next(port for port, step in STEP.items() if step == (to_row - row, to_col - col))
                    words[side, row, col] += loads[direction, line, place]
    return words


def check_reference(name: str) -> None:
    """Check the option ``--against``, which names the reference model.

    Raises:
        UnknownName: The value is not in `REFERENCES`.
    """
    if name not in REFERENCES:
        raise UnknownName("reference", name, REFERENCES, place="--against")


def agreement(on_progress: OnProgress = ignore) -> Agreement:
    """Compare the fast timing model with the cycle-by-cycle simulation on random configurations.

    Two kinds of cases are timed on each wafer generation, with each software profile in `PROFILES`:
    single communication patterns, and all steps of the layers of small models (`LAYERS`). Each
    combination has `CONFIGURATIONS_PER_PATTERN` configurations.

    Args:
        on_progress: Called with (finished configurations, total, pattern name).

    Returns:
        The cycle counts by both models for each configuration, and a summary of the errors.
    """
    wafers = {name: load_wafer(name) for name in GENERATIONS}
    rows: list[AgreementRow] = []
    case_count, seed = CONFIGURATIONS_PER_PATTERN, SEED
    plan = list(product([*samples(), *LAYERS], GENERATIONS, PROFILES))
    total = case_count * len(plan)
    for i, (pattern, wafer, profile) in enumerate(plan):
        machine, software = wafers[wafer], load_software(profile, wafers[wafer].generation)
        if pattern in LAYERS:
            for layers in LAYERS[pattern](case_count, seed + i):
                on_progress(len(rows), total, pattern)
                rows.append(compare_layers(pattern, layers, machine, software))
        else:
            for case in cases(pattern, case_count, seed + i):
                on_progress(len(rows), total, pattern)
                rows.append(compare(case, machine, software))
    on_progress(total, total, "")
    return Agreement(
        each=case_count, seed=seed, judged_above_cycles=JUDGED_CYCLES, rows=tuple(rows), summary=summarise(rows)
    )


def compare_layers(name: str, layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> AgreementRow:
    """Time layers of a small model with the fast timing model and with a cycle-by-cycle simulation.

    Args:
        name: Type of the layers, a key of `LAYERS`. It fills the field ``pattern`` of the result.
        layers: The model, its mesh, and the phase to time: decode, prefill or verification.
        wafer: The machine. Only a mesh of the size in ``layers`` is used.
        software: Software costs of a PE, such as cycles for starting a step or relaying a message.

    Returns:
        The cycles according to both models, and whether both count the same words on every link.
    """
    cost, phase_run = time_layers(layers, wafer, software)
    return AgreementRow.from_parts(
        layers,
        pattern=name,
        wafer=wafer.name,
        software=software.name,
        words=0,
        detail=layers.description,
        fast_cycles=sum(cost.cause(name) for name in ON_MESH),
        wavelet_cycles=phase_run.cycles,
        contention_cycles=float(cost.contention.sum()),
        streams=int(cost.streams.max()),
        loads_equal=bool(np.array_equal(cost.links, phase_run.links)),
    )


def summarise(rows: Sequence[AgreementRow]) -> AgreementSummary:
    """Summarise the errors of the fast timing model, over all configurations and by pattern."""
    patterns = dict.fromkeys(row.pattern for row in rows)
    by_pattern = (PatternErrors(pattern=p, **_errors([row for row in rows if row.pattern == p])) for p in patterns)
    return AgreementSummary(**_errors(rows), by_pattern=tuple(by_pattern))


def _errors(rows: Sequence[AgreementRow]) -> dict[str, Any]:
    """Return counts and relative errors of a group of runs, keyed by `AgreementErrors` field name.

    Runs of at most `JUDGED_CYCLES` cycles are counted, but their errors are left out. These runs
    are too short for a meaningful relative error.
    """
    errors = [abs(row.error_pct) for row in rows if row.wavelet_cycles > JUDGED_CYCLES]
    return {
        "rows": len(rows),
        "judged": len(errors),
        "loads_equal": sum(row.loads_equal for row in rows),
        "median_abs_error_pct": median(errors) if errors else None,
        "worst_abs_error_pct": max(errors, default=None),
    }
