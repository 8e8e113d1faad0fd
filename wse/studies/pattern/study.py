"""The study behind ``wse pattern``: checks, timing and bounds for each pattern on each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from wse.backends.fabric.line.closed_forms import SOURCES, closed_form, collective_bound, level_cycles, reduce_form
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import PatternTimes
from wse.backends.fabric.links.loads import line_loads
from wse.backends.wavelet.plan import Plan, plan_line
from wse.backends.wavelet.stalls import find_stall
from wse.errors import BadInput, Deadlock
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.line_patterns import named_pattern
from wse.program.named_patterns import NamedPattern
from wse.reports.progress import OnProgress, ignore
from wse.studies.options.settings import replaced_numbers, with_settings
from wse.studies.pattern.reference import simulate_pattern, wrong_words
from wse.studies.pattern.request import PatternRequest
from wse.studies.pattern.result import BoundResult, PatternCase, PatternResult
from wse_mappings.outcome import PatternOutcome, outcome_of
from wse_mappings.schedule import LineSchedule

MAX_HOPS: Final = 100_000_000
"""Maximum number of hops in a case simulated cycle by cycle, which takes about ten seconds."""
MAX_MESSAGES: Final = 200_000
"""Maximum number of messages in a pattern that is checked for deadlocks and simulated."""


@dataclass(frozen=True, kw_only=True)
class CheckedPattern:
    """A communication pattern on a line of PEs, and the result of checking its messages.

    Attributes:
        name: Name of the pattern, as specified by the user.
        schedule: Messages of the pattern.
        outcome: The collective operation, such as a reduce, that the messages perform. If they are
            faulty, the fault that was found, such as a deadlock.
        words: Words per PE.
    """

    name: str
    schedule: LineSchedule
    outcome: PatternOutcome
    words: int

    @property
    def schedule_words(self) -> int:
        """Number of words in each PE's memory that the operation reads or writes.

        It is ``words`` except for a gather, which collects words from all PEs. For a gather, it is
        ``words`` times the number of pieces that are collected.
        """
        gathers = self.outcome.collective in ("gather", "all_gather")
        return self.words * (self.schedule.parts if gathers else 1)


@dataclass(frozen=True, kw_only=True)
class PatternSetup:
    """The wafer and software used to compare patterns.

    Attributes:
        wafer: Wafer type, which determines the cycles per hop and the number of colours.
        software: Costs of the software on the wafer, such as cycles for relaying a message.
        times: Timing model for patterns, which caches its results.
        settings: Constants of the wafer and software that the user replaced: new values, keyed by
            names such as ``wafer.clock_hz``.
    """

    wafer: WaferSpec
    software: SoftwareProfile
    times: PatternTimes
    settings: Mapping[str, float]


def pattern_setup(request: PatternRequest) -> PatternSetup:
    """Load the wafer and software of a request, and apply the user's settings.

    Raises:
        BadInput: The wafer, the software or a setting is unknown or invalid.
    """
    request = with_settings(request)
    machine = request.machine
    wafer = load_wafer(machine.wafer, machine.wafer_values)
    software = load_software(machine.software, wafer.generation, machine.software_values)
    costs = LineCosts.of(wafer, software.reduce_gap_cycles, software.relay_cycles)
    return PatternSetup(
        wafer=wafer,
        software=software,
        times=PatternTimes(costs),
        settings=replaced_numbers(request),
    )


def compare_patterns(request: PatternRequest, on_progress: OnProgress = ignore) -> PatternResult:
    """Compare the cycle counts of communication patterns for all line lengths and word counts.

    A pattern with a fault, such as a deadlock, does not raise an error. The fault is stored in the
    result.

    Args:
        request: The patterns, line lengths and word counts.
        on_progress: Called with (cases done, total, name of the next case).

    Returns:
        The cases, sorted by PEs, words, collective operation and cycles.

    Raises:
        BadInput: A name, a size or a file cannot be used.
    """
    names, pes, words = request.cases()
    patterns, setup = [named_pattern(name) for name in dict.fromkeys(names)], pattern_setup(request)
    grid = list(product(sorted(set(pes)), sorted(set(words)), patterns))
    cases: list[PatternCase] = []
    for done_count, (length, count, pattern) in enumerate(grid):
        on_progress(done_count, len(grid), f"{pattern.name} on {length} PEs")
        cases.append(evaluate_case(pattern, length, count, setup, wavelet=request.wavelet))
    on_progress(len(grid), len(grid), "")
    done_collectives = dict.fromkeys(case.collective for case in cases if case.collective is not None)
    bounds = (BoundResult.from_parts(SOURCES[collective], collective=collective) for collective in done_collectives)
    return PatternResult(
        wafer=setup.wafer.name,
        software=setup.software.name,
        settings=setup.settings,
        cases=tuple(_sort_and_mark(cases)),
        bounds=tuple(bounds),
    )


def evaluate_case(pattern: NamedPattern, length: int, words: int, setup: PatternSetup, *, wavelet: bool) -> PatternCase:
    """Check a communication pattern on a line of PEs, and compute its cycles, bound and traffic.

    Nothing is computed for a pattern with a fault.

    Args:
        pattern: Name and function of the pattern.
        length: Number of PEs on the line.
        words: Words per PE.
        setup: The wafer and its software.
        wavelet: True to also simulate the pattern cycle by cycle, which is slow, and to report the
            simulated cycles next to those of the timing model.
    """
    checked = check_pattern(pattern, length, words, setup.wafer)
    case = PatternCase(pattern=pattern.name, pes=length, words=words)
    outcome, schedule = checked.outcome, checked.schedule
    if outcome.collective is None:
        return replace(case, fault=outcome.fault)
    cycles = setup.times.alone_cycles(schedule, checked.schedule_words)
    bound = collective_bound(outcome.collective, length, words, setup.wafer, outcome.root)
    form = _form_cycles(pattern, length, words, setup.wafer)
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
        stalls=False if len(schedule.messages) <= MAX_MESSAGES else None,
    )
    return _with_wavelets(case, checked, setup) if wavelet else case


def check_pattern(pattern: NamedPattern, length: int, words: int, wafer: WaferSpec) -> CheckedPattern:
    """Create the messages of a pattern, and determine which collective operation they perform.

    If there are at most `MAX_MESSAGES` messages, they are also checked for deadlocks and for a lack
    of colours (each selects a route).

    Args:
        pattern: Name and function of the pattern.
        length: Number of PEs on the line.
        words: Words per PE.
        wafer: The wafer, which limits the number of colours.

    Raises:
        BadInput: The pattern cannot be created for this line.
    """
    try:
        schedule = pattern.make(length, words, level_cycles(wafer))
    except ValueError as error:
        raise BadInput(f"{pattern.name} on {length} PEs: {error}") from error
    outcome = outcome_of(schedule)
    if outcome.collective is not None and len(schedule.messages) <= MAX_MESSAGES:
        messages, colours, part = schedule.variant_messages(int(schedule.variants[0, 0]))
        plan = plan_line(messages, colours, part, store_and_forward=schedule.store_and_forward)
        fault = _colour_fault(schedule, plan, wafer) or find_stall(plan)
        outcome = PatternOutcome(fault=fault) if fault else outcome
    return CheckedPattern(name=pattern.name, schedule=schedule, outcome=outcome, words=words)


def _colour_fault(schedule: LineSchedule, plan: Plan, wafer: WaferSpec) -> str:
    """Return why a pattern needs too many colours or switch positions; empty if it does not.

    A colour is a number that selects a route in each router. A switch position is one of a router's
    settings for a colour. Three conditions are checked:

    1. The messages that cross at a PE need no more colours than the pattern declares.
    2. The wafer has at least as many colours as the pattern declares.
    3. The wafer has enough switch positions for each colour at each PE.

    Args:
        schedule: Messages of the pattern, and the number of colours that it declares.
        plan: Colours and switch positions that the messages need.
        wafer: Wafer type, which limits colours and switch positions.

    Returns:
        A message about the first condition that is not met; empty if all are met.
    """
    usable = wafer.colours - wafer.reserved_colours
    if plan.colours > schedule.colours:  # 1
        return f"its messages need {plan.colours} colours where they cross; colours = {schedule.colours} is too few"
    if schedule.colours > usable:  # 2
        return f"it needs {schedule.colours} colours; {wafer.name} has {usable}"
    for (place, colour), positions in plan.positions.items():  # 3
        if len(positions) > wafer.switch_positions:
            count = f"{len(positions)} switch positions of colour {colour} on PE {place}"
            return f"it needs {count}; {wafer.name} has {wafer.switch_positions}: give the messages more colours"
    return ""


def _with_wavelets(case: PatternCase, checked: CheckedPattern, setup: PatternSetup) -> PatternCase:
    """Simulate a pattern cycle by cycle, and return its case with the simulated cycles added.

    If the simulation finds a deadlock or wrong words, the returned case has a fault instead. If the
    simulation would take too long, the case is returned unchanged.
    """
    assert case.hops is not None
    assert case.cycles is not None
    if case.hops > MAX_HOPS or case.stalls is None:
        return case
    try:
        _, machine_run, initial_words = simulate_pattern(
            checked.schedule, checked.schedule_words, setup.wafer, setup.software
        )
        fault = wrong_words(checked.outcome, checked.schedule, machine_run, initial_words)
    except Deadlock as error:
        fault = str(error)
    if fault:
        return PatternCase(pattern=case.pattern, pes=case.pes, words=case.words, fault=fault)
    return replace(
        case, wavelet_cycles=machine_run.cycles, wavelet_error_pct=100 * (case.cycles / machine_run.cycles - 1)
    )


def _form_cycles(pattern: NamedPattern, length: int, words: int, wafer: WaferSpec) -> float | None:
    """Return the cycle count of a pattern by a formula; None if there is no formula for it.

    The formula is either published or defined in the pattern's file.

    Args:
        pattern: Name and function of the pattern.
        length: Number of PEs on the line.
        words: Words per PE.
        wafer: The wafer, which determines the cycles per hop.
    """
    if pattern.form is not None:
        return closed_form(*pattern.form, 1, length, words, wafer)
    return None if pattern.reduce is None else reduce_form(pattern.reduce, length, words, wafer)


def _sort_and_mark(cases: Sequence[PatternCase]) -> list[PatternCase]:
    """Sort cases by PEs, words, collective operation and cycles, and mark the fastest cases.

    A case is marked as best if it needs the fewest cycles of all cases with the same PEs, words and
    collective operation. A case without such competitors is not marked.
    """

    def group_key(case: PatternCase) -> tuple[Any, ...]:
        """Return a key that is equal for comparable cases: PEs, words and collective operation."""
        return case.pes, case.words, case.collective or "~"

    groups: dict[tuple[Any, ...], list[PatternCase]] = {}
    for case in sorted(cases, key=lambda case: (*group_key(case), case.cycles or 0.0)):
        groups.setdefault(group_key(case), []).append(case)
    return [
        replace(case, best=case.collective is not None and case.cycles == group[0].cycles and len(group) > 1)
        for group in groups.values()
        for case in group
    ]
