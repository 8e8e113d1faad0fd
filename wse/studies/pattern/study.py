"""The study of ``wse pattern``: each pattern on each line with each number of words, checked, timed and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from wse.backends.fabric.line.closed_forms import closed_form, level_cycles, reduce_form
from wse.backends.fabric.line.collective_bounds import SOURCES, collective_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.backends.fabric.links.loads import line_loads
from wse.backends.wavelet.plan import Plan, plan_line
from wse.backends.wavelet.stalls import find_stall
from wse.errors import BadInput, Deadlock
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.line_patterns import NamedPattern, named_pattern
from wse.reports.progress import OnProgress, ignore
from wse.studies.options.settings import SOFTWARE, WAFER, read_settings
from wse.studies.pattern.case import BoundResult, PatternCase
from wse.studies.pattern.reference import carry_out, wrong_words
from wse.studies.pattern.request import PatternRequest
from wse.studies.pattern.result import PatternResult
from wse_mappings.outcome import Outcome, outcome_of
from wse_mappings.schedule import LineSchedule

MOST_HOPS: Final = 100_000_000
"""Hops of a case's words that are executed cycle by cycle: some ten seconds."""
MOST_MESSAGES: Final = 200_000
"""Messages of a pattern whose routes are planned, for the check and cycle by cycle: some seconds."""


@dataclass(frozen=True, kw_only=True)
class CheckedPattern:
    """A pattern on a line for some words, and what was found of it without a clock.

    Attributes:
        name: As it was given.
        schedule: The pattern.
        outcome: What it does, or what is wrong with its messages, its colours or their order.
        words: Words of a PE.
    """

    name: str
    schedule: LineSchedule
    outcome: Outcome
    words: int

    @property
    def schedule_words(self) -> int:
        """Words of all parts: of a gather, in which each PE has a part of its own, those of all PEs."""
        gathers = self.outcome.collective in ("gather", "all_gather")
        return self.words * (self.schedule.parts if gathers else 1)


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """The machine on which patterns are looked at, and the times of those that were.

    ``settings`` are the numbers of the machine that are not its files', by name.
    """

    wafer: WaferSpec
    software: SoftwareProfile
    times: PatternTimes
    settings: Mapping[str, float]


def laboratory_of(request: PatternRequest) -> Laboratory:
    """Return the machine of a request. Raises BadInput for a wafer, software or a setting that is none."""
    wafer = load_wafer(request.wafer)
    software = load_software(request.software, wafer.generation)
    of_wafer, of_software = read_settings(request.settings, wafer, software)
    wafer = load_wafer(request.wafer, tuple(of_wafer.items()))
    software = load_software(request.software, wafer.generation, tuple(of_software.items()))
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return Laboratory(
        wafer=wafer,
        software=software,
        times=PatternTimes(costs),
        settings={f"{WAFER}{key}": value for key, value in of_wafer.items()}
        | {f"{SOFTWARE}{key}": value for key, value in of_software.items()},
    )


def compare_patterns(request: PatternRequest, on_progress: OnProgress = ignore) -> PatternResult:
    """Return all cases of a request, the quickest first for each number of PEs and words.

    Raises:
        BadInput: a name, a size or a file that cannot be used. What is wrong with a pattern is in its case.
    """
    names, pes, words = request.cases()
    patterns, laboratory = [named_pattern(name) for name in dict.fromkeys(names)], laboratory_of(request)
    grid = list(product(sorted(set(pes)), sorted(set(words)), patterns))
    cases: list[PatternCase] = []
    for done, (length, count, pattern) in enumerate(grid):
        on_progress(done, len(grid), f"{pattern.name} on {length} PEs")
        cases.append(look_at(pattern, length, count, laboratory, wavelet=request.wavelet))
    on_progress(len(grid), len(grid), "")
    done_collectives = dict.fromkeys(case.collective for case in cases if case.collective is not None)
    bounds = (
        BoundResult(collective=one, formula=SOURCES[one].formula, source=SOURCES[one].source)
        for one in done_collectives
    )
    return PatternResult(
        wafer=laboratory.wafer.name,
        software=laboratory.software.name,
        settings=laboratory.settings,
        cases=tuple(_ranked(cases)),
        bounds=tuple(bounds),
    )


def look_at(pattern: NamedPattern, length: int, words: int, laboratory: Laboratory, *, wavelet: bool) -> PatternCase:
    """Return a case of a pattern: its checks and, where it has no fault, its numbers."""
    checked = check_pattern(pattern, length, words, laboratory.wafer)
    case = PatternCase(pattern=pattern.name, pes=length, words=words)
    outcome, schedule = checked.outcome, checked.schedule
    if outcome.collective is None:
        return replace(case, fault=outcome.fault)
    cycles = laboratory.times.alone_cycles(schedule, checked.schedule_words)
    bound = collective_bound(outcome.collective, length, words, laboratory.wafer, outcome.root)
    form = _form_cycles(pattern, length, words, laboratory.wafer)
    loads = line_loads(schedule, 1, checked.schedule_words)[:, 0]
    case = replace(
        case,
        collective=outcome.collective,
        root=outcome.root,
        cycles=cycles,
        bound_cycles=bound,
        times_bound=cycles / bound,
        form_cycles=form,
        form_error_pct=None if form is None else 100 * (form / cycles - 1),
        links=int((loads > 0).sum()),
        busiest_link_words=int(loads.max()),
        hops=int(loads.sum()),
        colours=schedule.colours,
        stalls=False if len(schedule.messages) <= MOST_MESSAGES else None,
    )
    return _with_wavelets(case, checked, laboratory) if wavelet else case


def check_pattern(pattern: NamedPattern, length: int, words: int, wafer: WaferSpec) -> CheckedPattern:
    """Return a pattern for a line and words, and what it does there.

    Raises:
        BadInput: the pattern cannot be made for this line.
    """
    try:
        schedule = pattern.make(length, words, level_cycles(wafer))
    except ValueError as error:
        message = f"{pattern.name} on {length} PEs: {error}"
        raise BadInput(message) from error
    outcome = outcome_of(schedule)
    if outcome.collective is not None and len(schedule.messages) <= MOST_MESSAGES:
        messages, colours, part = schedule.of_variant(int(schedule.variants[0, 0]))
        plan = plan_line(messages, colours, part, store_and_forward=schedule.store_and_forward)
        fault = _colour_fault(schedule, plan, wafer) or find_stall(plan)
        outcome = Outcome(fault=fault) if fault else outcome
    return CheckedPattern(name=pattern.name, schedule=schedule, outcome=outcome, words=words)


def _colour_fault(schedule: LineSchedule, plan: Plan, wafer: WaferSpec) -> str:
    """Return what a pattern asks of colours beyond what it says or what a wafer has; empty where it does not."""
    usable = wafer.colours - wafer.reserved_colours
    if plan.colours > schedule.colours:
        return f"its messages need {plan.colours} colours where they cross; colours = {schedule.colours} is too few"
    if schedule.colours > usable:
        return f"it takes {schedule.colours} colours; {wafer.name} has {usable}"
    for (place, colour), positions in plan.positions.items():
        if len(positions) > wafer.switch_positions:
            count = f"{len(positions)} switch positions of colour {colour} on PE {place}"
            return f"it takes {count}; {wafer.name} has {wafer.switch_positions}: give the messages more colours"
    return ""


def _with_wavelets(case: PatternCase, checked: CheckedPattern, laboratory: Laboratory) -> PatternCase:
    """Return a case with the cycles of the reference, or with the fault that it found.

    As it was where that takes too long.
    """
    assert case.hops is not None
    assert case.cycles is not None
    if case.hops > MOST_HOPS or case.stalls is None:
        return case
    try:
        _, ran, before = carry_out(checked.schedule, checked.schedule_words, laboratory.wafer, laboratory.software)
        fault = wrong_words(checked.outcome, checked.schedule, ran, before)
    except Deadlock as error:
        fault = str(error)
    if fault:
        return PatternCase(pattern=case.pattern, pes=case.pes, words=case.words, fault=fault)
    return replace(case, wavelet_cycles=ran.cycles, wavelet_error_pct=100 * (case.cycles / ran.cycles - 1))


def _form_cycles(pattern: NamedPattern, length: int, words: int, wafer: WaferSpec) -> float | None:
    """Return the cycles by the closed form of a pattern as it is published, or as its file has it; None without one."""
    if pattern.form is not None:
        return closed_form(*pattern.form, 1, length, words, wafer)
    return None if pattern.reduce is None else reduce_form(pattern.reduce, length, words, wafer)


def _ranked(cases: Sequence[PatternCase]) -> list[PatternCase]:
    """Cases by PEs, words, collective and cycles; the first of each collective is the best if there are others."""

    def kind(case: PatternCase) -> tuple[Any, ...]:
        return case.pes, case.words, case.collective or "~"

    of_kind: dict[tuple[Any, ...], list[PatternCase]] = {}
    for case in sorted(cases, key=lambda case: (*kind(case), case.cycles or 0.0)):
        of_kind.setdefault(kind(case), []).append(case)
    return [
        replace(case, best=case.collective is not None and case.cycles == same[0].cycles and len(same) > 1)
        for same in of_kind.values()
        for case in same
    ]
