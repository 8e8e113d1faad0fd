"""The LINE steps of a Program's phase, wavelet by wavelet on the region that they run on.

Steps that run together are laid on one machine, each with its own colours and its own threads. Only their timing and
their links are of interest here: words are zeros, at addresses of the machine's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wse.hardware.spec import WaferSpec
from wse.program import ELEMENT_BYTES, ROWS, Field, Kind, Phase, Program
from wse.wavelet.lines import Lines
from wse.wavelet.machine import Machine
from wse.wavelet.run import Result, run
from wse_mappings.split import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRun:
    """One turn of steps that run together.

    Attributes:
        steps: Their numbers in the phase.
        turn: Of their loop; 0 outside one.
        repeat: How many turns are alike, counted from this one.
        result: What the wavelets did; ``link_words`` are those of the region's PEs.
    """

    steps: tuple[int, ...]
    turn: int
    repeat: int
    result: Result


def line_steps(
    program: Program, phase: Phase, slots: int, wafer: WaferSpec, gap_cycles: int, *, workers: int = 1
) -> Iterator[StepRun]:
    """Every LINE step of ``phase`` that moves words, in order.

    Args:
        program: What was compiled.
        phase: One of its phases.
        slots: Cache slots in use on the fullest row.
        wafer: The machine.
        gap_cycles: Between two vector operations of a PE inside a pattern.
        workers: Cores.

    Raises:
        BadMesh: a region is larger than the reference can hold.
    """
    known: dict[tuple[object, ...], Result] = {}
    for steps in _groups(phase):
        rounds = max(len(program.patterns[phase.code[step]].variants) for step in steps)
        turns = phase.turns(steps[0])
        for turn in range(turns if rounds > 1 else 1):
            key = _key(program, phase, steps, slots, turn)
            if key not in known:
                known[key] = run(_machine(program, phase, steps, slots, turn, wafer, gap_cycles), workers=workers)
            yield StepRun(steps=steps, turn=turn, repeat=1 if rounds > 1 else turns, result=known[key])


def _groups(phase: Phase) -> list[tuple[int, ...]]:
    """LINE steps by the number that says that they run at the same time."""
    groups: list[list[int]] = []
    for step in range(len(phase)):
        if phase.kind[step] == Kind.LINE:
            with_last = groups and phase.together[step] >= 0 and groups[-1][-1] == step - 1
            if with_last and phase.together[step] == phase.together[step - 1]:
                groups[-1].append(step)
            else:
                groups.append([step])
    return [tuple(group) for group in groups]


def _key(program: Program, phase: Phase, steps: tuple[int, ...], slots: int, turn: int) -> tuple[object, ...]:
    """What a run depends on."""
    each = []
    for step in steps:
        a = phase.operands(step, slots, turn)
        round_ = turn % len(program.patterns[phase.code[step]].variants)
        place = (int(phase.code[step]), int(phase.axis[step]), round_, int(a[0]), int(a[1]))
        each.append((*place, _words(program, phase, step, slots, turn), bool(a[Field.SOURCE] == a[Field.TARGET])))
    rect = program.stages[phase.stage[steps[0]]].rect
    return (rect.rows, rect.cols, *each)


def _machine(
    program: Program, phase: Phase, steps: tuple[int, ...], slots: int, turn: int, wafer: WaferSpec, gap_cycles: int
) -> Machine:
    rect = program.stages[phase.stage[steps[0]]].rect
    words = [_words(program, phase, step, slots, turn) for step in steps]
    machine = Machine(wafer, rect.rows, rect.cols, max(1, 2 * sum(words)))
    colour, address = 0, 0
    for i, step in enumerate(steps):
        pattern, a = program.patterns[phase.code[step]], phase.operands(step, slots, turn)
        target = address if a[Field.SOURCE] == a[Field.TARGET] else address + words[i]
        lines = Lines(machine=machine, gap_cycles=gap_cycles, main=2 * wafer.colours * i)
        if words[i] and phase.axis[step] == ROWS:
            chosen = slice(int(a[0]), int(a[0] + a[1]))
            colour = lines.rows(
                pattern, words[i], source=address, target=target, round_=turn, colour=colour, chosen=chosen
            )
        elif words[i]:
            colour = lines.columns(pattern, words[i], source=address, target=target, round_=turn, colour=colour)
        address += 2 * words[i]
    return machine


def _words(program: Program, phase: Phase, step: int, slots: int, turn: int) -> int:
    """32-bit words of a message of one step, as the fast model counts them."""
    elements = int(phase.operands(step, slots, turn)[Field.ELEMENTS])
    return ceil_div(elements * ELEMENT_BYTES[program.element_types[phase.view[step]]], 4)
